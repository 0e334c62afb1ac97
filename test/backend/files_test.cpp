// A file is the old one or the whole new one; failures name the path and the reason.
#include "kiln/files.h"
#include "test/backend/Helpers.h"

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

std::size_t countIn(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Printable, WritesOutWhatTerminalsObey) {
  EXPECT_EQ(printable("layer_norm 8x8 \xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80"),
            "layer_norm 8x8 \xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\n\t\r\x1b[31m\x7f"), "a\\x0a\\x09\\x0d\\x1b[31m\\x7f");
  EXPECT_EQ(printable("a\n\t\r", true), "a\n\t\\x0d");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");          // a control character beyond ASCII
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae"); // right to left from here on
  // No UTF-8: bytes alone, cut short, overlong, a surrogate, beyond the last.
  for (const char* bytes : {"\xff", "\xa9", "\xc3", "\xe2\x86", "\xc0\xaf", "\xe0\x80\xaf",
                            "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(printable(bytes).substr(0, 2), "\\x") << bytes;
}

TEST(Files, WritesReplacesReads) {
  TemporaryFolder folder;
  fs::path file = folder.path / "a.txt";
  writeFile(file, "one");
  writeFile(file, std::string("two\0x", 5));
  EXPECT_EQ(readFile(file), std::string("two\0x", 5));
  writeFile(file, "");
  EXPECT_EQ(readFile(file), "");
  EXPECT_EQ(countIn(folder.path), 1u); // no temporary file is left
  struct stat status;
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST(Files, LargeFile) {
  TemporaryFolder folder;
  std::string text(3'000'001, 'k');
  writeFile(folder.path / "large", text);
  EXPECT_EQ(readFile(folder.path / "large"), text);
}

TEST(Files, MissingFolderAndMissingFile) {
  TemporaryFolder folder;
  fs::path file = folder.path / "no/such/file";
  EXPECT_EQ(errorOf(ErrorKind::io, [&] { writeFile(file, "x"); }),
            "cannot write '" + file.string() +
                "': No such file or directory; check that the folder exists");
  EXPECT_HAS(errorOf(ErrorKind::io, [&] { readFile(file); }), "cannot read '" + file.string());
  EXPECT_HAS(errorOf(ErrorKind::io, [&] { readFile(folder.path); }), "Is a directory");
  EXPECT_HAS(errorOf(ErrorKind::io, [&] { writeFile(folder.path, "x"); }), "Is a directory");
}

TEST(Files, UnwritableFolderKeepsTheOldFile) {
  TemporaryFolder folder;
  fs::path file = folder.path / "a.txt";
  writeFile(file, "old");
  ASSERT_EQ(::chmod(folder.path.c_str(), 0555), 0);
  bool root = ::geteuid() == 0; // root may write anywhere
  if (root && ::seteuid(65534) != 0)
    GTEST_SKIP() << "root cannot give up its rights here";
  std::string text = errorOf(ErrorKind::io, [&] { writeFile(file, "new"); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ::chmod(folder.path.c_str(), 0755);
  EXPECT_HAS(text, "cannot write '" + file.string() + "': Permission denied");
  EXPECT_EQ(readFile(file), "old");
}

TEST(Files, FullDisk) {
  EXPECT_EQ(errorOf(ErrorKind::io, [] { writeFile("/dev/full", "x"); }),
            "cannot write '/dev/full': No space left on device; free some space or write to "
            "another disk");
}

TEST(Files, FailureHalfwayLeavesNothingBehind) {
  TemporaryFolder folder;
  fs::path file = folder.path / "a.txt";
  writeFile(file, "old");
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tiny = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  std::string text = errorOf(ErrorKind::io, [&] { writeFile(file, std::string(100'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_HAS(text, "File too large; free some space");
  EXPECT_EQ(readFile(file), "old");
  EXPECT_EQ(countIn(folder.path), 1u);
}

TEST(Files, WritersDoNotMix) {
  TemporaryFolder folder;
  fs::path file = folder.path / "a.txt";
  {
    std::vector<std::jthread> threads;
    for (char letter : {'a', 'b', 'c', 'd'})
      threads.emplace_back([&, letter] {
        for (int i = 0; i < 20; ++i)
          writeFile(file, std::string(50'000, letter));
      });
  }
  std::string text = readFile(file);
  EXPECT_EQ(text, std::string(50'000, text[0]));
  EXPECT_EQ(countIn(folder.path), 1u);
}

TEST(Files, StandardInput) {
  TemporaryFolder folder;
  writeFile(folder.path / "in", "from stdin");
  int before = ::dup(0);
  int descriptor = ::open((folder.path / "in").c_str(), O_RDONLY);
  ASSERT_GE(descriptor, 0);
  ::dup2(descriptor, 0);
  EXPECT_EQ(readFile("-"), "from stdin");
  ::dup2(before, 0);
  ::close(before);
  ::close(descriptor);
}

TEST(Files, AFolderIsRemovedAndNothingThatALinkNames) {
  TemporaryFolder folder;
  const fs::path kept = folder.path / "kept", removed = folder.path / "removed";
  fs::create_directories(kept);
  writeFile(kept / "a.txt", "a");
  fs::create_directories(removed / "b/c");
  writeFile(removed / "b/c/d.txt", "d");
  fs::create_directory_symlink(kept, removed / "b/link");
  removeFolder(removed);
  EXPECT_FALSE(fs::exists(removed));
  EXPECT_EQ(readFile(kept / "a.txt"), "a");
  removeFolder(removed); // nothing there is no error
}

} // namespace
