// What may happen to a file or a disk: each has its stated end, and no row that was written before
// is lost to it.
#include "test/store/Rows.h"

#include "autotune/store/FileSystem.h"
#include "autotune/store/Merge.h"
#include "autotune/store/Schema.h"

#include <gmock/gmock.h>

#include <csignal>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using testing::HasSubstr;
using testing::IsEmpty;

namespace kiln::autotune {
namespace {

class DamageTest : public InFolder {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  void expectSetAside() const {
    std::vector<std::string> warnings;
    auto store = Store::openOrReplace(path(), warnings);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("is damaged"));
    EXPECT_THAT(warnings[0], HasSubstr(".corrupt-"));
    EXPECT_TRUE(store->keys().empty());
    tune(*store, keyNumber(1), "new", 10);
    EXPECT_EQ(std::ranges::count_if(files(),
                                    [](const std::string& name) {
                                      return name.starts_with("store.corrupt-") &&
                                             !name.ends_with("-wal") && !name.ends_with("-shm");
                                    }),
              1);
  }
};

/// In a process of its own; true if `work` returned true.
template <class Work> bool inChild(Work work) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(work() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(DamageTest, Truncated) {
  fill();
  std::string whole = bytes();
  write(whole.substr(0, whole.size() / 2));
  EXPECT_THAT(errorOf(ErrorKind::corrupt, [&] { open(); }), HasSubstr("is damaged"));
  errorOf(ErrorKind::corrupt, [&] { open("store", Store::Access::read); });
  expectSetAside();
}

TEST_F(DamageTest, FilesOfOthersAreLeftAlone) {
  std::string foreign = "SQLite format 3";
  foreign.resize(4096);
  for (const std::string& text :
       {std::string("a text"), std::string(4096, 'x'), foreign, foreign.substr(0, 50)}) {
    write(text);
    const auto before = files();
    for (auto access : {Store::Access::write, Store::Access::read, Store::Access::immutable})
      EXPECT_THAT(errorOf(ErrorKind::input, [&] { open("store", access); }),
                  HasSubstr("another program"));
    std::vector<std::string> warnings;
    errorOf(ErrorKind::input, [&] { Store::openOrReplace(path(), warnings); });
    EXPECT_EQ(bytes(), text);
    EXPECT_EQ(files(), before);
  }
}

TEST_F(DamageTest, WhatIsNoFileIsNamedAndNotOpened) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(path("folder"));
  std::filesystem::create_symlink(path("fifo"), path("link"));
  const std::pair<const char*, const char*> all[] = {{"fifo", "a FIFO"},
                                                     {"link", "a FIFO"},
                                                     {"folder", "a folder"},
                                                     {"/dev/null", "a character device"}};
  for (const auto& [name, what] : all)
    for (auto access : {Store::Access::write, Store::Access::read, Store::Access::immutable})
      EXPECT_THAT(errorOf(ErrorKind::input, [&] { open(name, access); }), HasSubstr(what));
}

/// From its first byte on: whoever was killed while he began a store left no stranger's file.
TEST_F(DamageTest, AStoreThatIsBegunIsKilns) {
  auto store = open();
  EXPECT_EQ(whatLiesAt(path()), Lies::store);
}

TEST_F(DamageTest, ReadingLeavesNoTrace) {
  fill(1);
  const auto before = files();
  const std::string whole = bytes();
  for (auto mode : {0644, 0444}) {
    std::filesystem::permissions(path(), std::filesystem::perms(mode));
    EXPECT_EQ(open("store", Store::Access::read)->keys().size(), 1u);
    EXPECT_EQ(files(), before);
    EXPECT_EQ(bytes(), whole);
  }
  std::filesystem::permissions(path(), std::filesystem::perms(0644));
  auto first = open("store", Store::Access::read), second = open("store", Store::Access::read);
  auto writer = open();
  tune(*writer, keyNumber(5), "s", 10);
  EXPECT_TRUE(first->choice(keyNumber(5))); // what others write is seen
  first.reset();
  writer.reset();
  EXPECT_TRUE(second->choice(keyNumber(5)));
  second.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(DamageTest, WhoElseMayWriteIsNamed) {
  fill(1);
  auto set = [&](const std::filesystem::path& at, unsigned mode) {
    std::filesystem::permissions(at, std::filesystem::perms(mode));
  };
  set(folder, 0755);
  EXPECT_EQ(whoElseMayWrite(path()), "");
  set(path(), 0666);
  EXPECT_THAT(whoElseMayWrite(path()), HasSubstr("has the mode 0666"));
  std::vector<std::string> warnings;
  Store::openOrReplace(path(), warnings);
  EXPECT_EQ(warnings.size(), 1u);
  set(path(), 0644);
  set(folder, 0777);
  EXPECT_THAT(whoElseMayWrite(path()), HasSubstr("has the mode 0777"));
  EXPECT_THAT(whoElseMayWrite(path("none")), HasSubstr("has the mode 0777"));
  set(folder, 01777); // as /tmp is: nobody else can rename what is ours there
  EXPECT_EQ(whoElseMayWrite(path()), "");
  set(folder, 0700);
  if (::geteuid() != 0)
    return;
  constexpr unsigned somebody = 4321;
  ASSERT_EQ(::chown(path().c_str(), somebody, somebody), 0);
  EXPECT_THAT(whoElseMayWrite(path()), HasSubstr("belongs to user 4321"));
  ASSERT_EQ(::chown(path().c_str(), 0, somebody), 0);
  EXPECT_EQ(whoElseMayWrite(path()), "");
  set(path(), 0664); // a group of others
  EXPECT_THAT(whoElseMayWrite(path()), HasSubstr("has the mode 0664"));
  ASSERT_EQ(::chown(path().c_str(), 0, 0), 0);
  EXPECT_EQ(whoElseMayWrite(path()), "");
  set(path(), 0644);
  ASSERT_EQ(::chown(folder.c_str(), somebody, somebody), 0);
  EXPECT_THAT(whoElseMayWrite(path()), HasSubstr("belongs to user 4321"));
  ASSERT_EQ(::chown(folder.c_str(), 0, 0), 0);
}

TEST_F(DamageTest, FlippedBitsAreNoticedOrHarmless) {
  std::mt19937 random(1);
  {
    auto store = open();
    for (int i = 0; i < 4; ++i) { // code of which nothing can be left out
      std::string code(100000, ' ');
      for (char& c : code)
        c = static_cast<char>(random());
      Artifact artifact = artifactOf(code);
      artifact.plan = std::string(2000, 'p');
      store->keep(keyNumber(i), "s", artifact);
      store->choose(keyNumber(i), choiceOf("s", artifact.sha256, Source::model));
    }
  }
  std::string whole = bytes();
  int noticed = 0;
  constexpr int flips = 300;
  for (int i = 0; i < flips; ++i) {
    std::string flipped = whole;
    std::size_t bit = random() % (whole.size() * 8);
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write(flipped, "flipped");
    try {
      auto store = open("flipped", Store::Access::immutable);
      for (const KnownKey& known : store->keys()) {
        auto choice = store->choice(known.key);
        if (!choice)
          continue;
        if (auto artifact = store->artifact(known.key, choice->schedule, choice->cubin)) {
          EXPECT_EQ(sha256(artifact->cubin), choice->cubin) << "bit " << bit;
          EXPECT_EQ(artifact->plan, std::string(2000, 'p')) << "bit " << bit;
        }
      }
    } catch (const Error&) {
      ++noticed;
    }
    std::filesystem::remove(path("flipped"));
  }
  EXPECT_GT(noticed, flips / 2);
}

TEST_F(DamageTest, TwoProcessesSetAsideOnce) {
  fill();
  write(bytes().substr(0, 5000));
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    if (children.push_back(::fork()); children.back() == 0) {
      std::vector<std::string> warnings;
      auto store = Store::openOrReplace(path(), warnings);
      tune(*store, keyNumber(100 + i), "s", 10);
      for (const std::string& warning : warnings)
        if (!store->lasts())
          std::fprintf(stderr, "%s\n", warning.c_str());
      ::_exit(store->lasts() ? 0 : 1);
    }
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open()->keys().size(), 8u);
}

TEST_F(DamageTest, DatabaseOfAnotherProgramIsLeftAlone) {
  {
    Database other(path(), Database::Access::write);
    other.script("CREATE TABLE letters (a)");
  }
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { open(); }), HasSubstr("another program"));
  std::vector<std::string> warnings;
  errorOf(ErrorKind::input, [&] { Store::openOrReplace(path(), warnings); });
  Database other(path(), Database::Access::read);
  EXPECT_EQ(other.number("SELECT count(*) FROM letters"), 0);
}

TEST_F(DamageTest, FullFile) {
  auto store = open();
  tune(*store, keyNumber(0), "first", 10);
  store->database().script("PRAGMA max_page_count = 60");
  int written = 0;
  std::string text = errorOf(ErrorKind::io, [&] {
    for (int i = 1; i < 10000; ++i, ++written)
      tune(*store, keyNumber(i), "schedule " + std::to_string(i), 10);
  });
  EXPECT_THAT(text, HasSubstr("no space left"));
  EXPECT_GT(written, 0);
  store.reset();
  store = open(); // nothing is lost, and it can be written again
  EXPECT_GE(store->keys().size(), std::size_t(written + 1));
  tune(*store, keyNumber(99999), "later", 10);
}

TEST_F(DamageTest, FullDisk) {
  // A limit on the size of files ends writing as a full disk does.
  bool told = inChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {1 << 19, 1 << 19}; // the tables alone take half
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto store = open();
    int written = 0;
    try {
      for (;; ++written)
        tune(*store, keyNumber(written), "schedule " + std::to_string(written), 10);
    } catch (const Error& error) {
      std::ofstream(path("written")) << written << " " << error.what();
      return error.kind() == ErrorKind::io;
    }
  });
  ASSERT_TRUE(told);
  int written = 0;
  std::ifstream(path("written")) >> written;
  EXPECT_GT(written, 0);
  auto store = open();
  EXPECT_GE(store->keys().size(), std::size_t(written));
}

TEST_F(DamageTest, UnwritableHome) {
  fill(1);
  std::filesystem::create_directory(folder / "home");
  std::filesystem::copy(path(), folder / "home" / "store");
  std::filesystem::permissions(folder / "home" / "store", std::filesystem::perms(0444));
  std::filesystem::permissions(folder / "home", std::filesystem::perms(0555));
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  bool kept = inChild([&] {
    constexpr int nobody = 65534;
    if (::geteuid() == 0 && ::setuid(nobody) != 0)
      return false;
    for (const char* name : {"home/store", "home/none", "home/folder/none"}) {
      std::vector<std::string> warnings;
      auto store = Store::openOrReplace(path(name), warnings);
      if (store->lasts() || warnings.size() != 1 ||
          warnings[0].find("in memory") == std::string::npos)
        return false;
      tune(*store, keyNumber(5), "s", 10);
      if (!store->choice(keyNumber(5)))
        return false;
    }
    // What lies there can be read all the same.
    return open("home/store", Store::Access::read)->keys().size() == 1;
  });
  EXPECT_TRUE(kept);
  std::filesystem::permissions(folder / "home", std::filesystem::perms(0755));
}

TEST_F(DamageTest, ImmutableLeavesNoTrace) {
  fill(1);
  auto before = files();
  EXPECT_EQ(open("store", Store::Access::immutable)->keys().size(), 1u);
  EXPECT_EQ(files(), before);
}

TEST_F(DamageTest, AFileThatIsStillWrittenIsNotImmutable) {
  auto writer = open();
  tune(*writer, keyNumber(1), "s", 10);
  EXPECT_EQ(open("store", Store::Access::read)->keys().size(), 1u);
  EXPECT_THAT(errorOf(ErrorKind::io, [&] { open("store", Store::Access::immutable); }),
              HasSubstr("is being written"));
}

TEST_F(DamageTest, EmptyFile) {
  write("");
  EXPECT_THAT(errorOf(ErrorKind::io, [&] { open("store", Store::Access::read); }),
              HasSubstr("empty file"));
  EXPECT_TRUE(open()->keys().empty()); // writing begins there
}

TEST_F(DamageTest, MissingFile) {
  EXPECT_THAT(errorOf(ErrorKind::io, [&] { open("none", Store::Access::read); }),
              HasSubstr("there is no store"));
}

} // namespace
} // namespace kiln::autotune
