// Compiling and caching: messages of the compiler, missing compilers, reuse of what was built.
#include "test/host/Harness.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <unistd.h>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* compileText = R"(#include "row.cuh"
using namespace kiln;
KILN_KERNEL(32, 1) fill(i64* to, i64 value) { store_global(to + thread_index(), value); }
KILN_KERNEL(32, 1)
many(i64* to, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f, i64 g, i64 h, i64 i, i64 j, i64 k, i64 l,
     i64 m, i64 n, i64 o, i64 p, i64 q, i64 r, i64 s, i64 t, i64 u, i64 v, i64 w, i64 x, i64 y,
     i64 z, i64 A, i64 B, i64 C, i64 D, i64 E) {
  store_global(to + thread_index(), a - b + 3 * y - E);
}
)";

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "kiln-test-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

void runFill(const HostLibrary& library) {
  std::vector<std::int64_t> to(32);
  runKernel(library, {.name = "fill",
                      .blocks = 1,
                      .threads = 32,
                      .arguments = {pointer(to), 7},
                      .regions = {output("to", to)}});
  EXPECT_EQ(to, std::vector<std::int64_t>(32, 7));
}

TEST(Compile, EqualTextsAreCompiledOnce) {
  auto first = HostLibrary::compile(compileText);
  EXPECT_EQ(first, HostLibrary::compile(compileText));
  EXPECT_NE(first, HostLibrary::compile(compileText, {.flags = {"-O2"}}));
  EXPECT_NE(first, HostLibrary::compile(std::string(compileText) + "// other\n"));
  runFill(*first);
}

TEST(Compile, PassesAsManyArgumentsAsPromised) {
  std::vector<std::int64_t> to(32);
  HostLaunch launch = {.name = "many", .blocks = 1, .threads = 32, .regions = {output("to", to)}};
  for (std::uint64_t i = 0; i < 32; ++i)
    launch.arguments.push_back(i * i * i);
  launch.arguments[0] = pointer(to);
  runKernel(*HostLibrary::compile(compileText), launch);
  EXPECT_EQ(to[31], 1 - 8 + 3 * 25 * 25 * 25 - 31 * 31 * 31);
}

TEST(Compile, ErrorsCarryCommandAndMessages) {
  std::string error = errorOf(ErrorKind::input, [] {
    HostLibrary::compile("#include \"row.cuh\"\nvoid f() { no_such_function(); }\n");
  });
  EXPECT_THAT(error, HasSubstr("the host compiler refused the kernel text\n"));
  EXPECT_THAT(error, HasSubstr("-std=c++20"));
  EXPECT_THAT(error, HasSubstr("kernel.cu:2:"));
  EXPECT_THAT(error, HasSubstr("no_such_function"));
}

TEST(Compile, StaticAssertionsOfTilesReachTheUser) {
  std::string error = errorOf(ErrorKind::input, [] {
    HostLibrary::compile("#include \"row.cuh\"\nint f = kiln::RowTile<10, 3, 1, 1, 33>::rows;\n");
  });
  EXPECT_THAT(error, HasSubstr("a block is 1 to 32 warps"));
}

TEST(Compile, MissingCompilerIsUnavailable) {
  std::string error = errorOf(ErrorKind::unavailable, [] {
    HostLibrary::compile(compileText, {.compiler = "/nonexistent/c++"});
  });
  EXPECT_EQ(error, "the host target needs a C++ compiler, and '/nonexistent/c++ --version' No such "
                   "file or directory; install g++ 12 or clang 14 or later, or set KILN_HOST_CXX");
  EXPECT_THAT(errorOf(ErrorKind::unavailable,
                      [] { HostLibrary::compile(compileText, {.compiler = "false"}); }),
              HasSubstr("'false --version' failed"));
  ::setenv("KILN_HOST_CXX", "/nonexistent/from-environment -m64", 1);
  std::string fromEnvironment =
      errorOf(ErrorKind::unavailable, [] { HostLibrary::compile(compileText); });
  ::unsetenv("KILN_HOST_CXX");
  EXPECT_THAT(fromEnvironment, HasSubstr("'/nonexistent/from-environment -m64 --version'"));
}

TEST(Compile, KeepsItsFilesWhenAsked) {
  Folder folder;
  runFill(*HostLibrary::compile(compileText, {.keep = folder.path() / "kept"}));
  for (const char* file : {"kernel.cu", "target.cuh", "row.cuh", "host_runtime.h", "compile.log"})
    EXPECT_TRUE(fs::exists(folder.path() / "kept" / file)) << file;
}

// Mistakes that only a sanitizer sees are found in generated code too, on the fibers' stacks.
TEST(CompileDeathTest, LocalArraysAreChecked) {
  if (!isSanitizedBuild())
    GTEST_SKIP() << "needs a build with KILN_SANITIZE";
  testing::FLAGS_gtest_death_test_style = "fast";
  auto library = HostLibrary::compile(R"(#include "row.cuh"
using namespace kiln;
KILN_KERNEL(32, 1) local(i64* to, i64 index) {
  i64 data[4] = {1, 2, 3, 4};
  i64* volatile opaque = data;
  store_global(to + thread_index(), opaque[index]);
}
)");
  std::vector<std::int64_t> to(32);
  HostLaunch launch = {.name = "local",
                       .blocks = 1,
                       .threads = 32,
                       .arguments = {pointer(to), 3},
                       .regions = {output("to", to)}};
  runKernel(*library, launch);
  launch.arguments[1] = 4;
  EXPECT_DEATH(runKernel(*library, launch), "stack-buffer-overflow");
}

std::vector<fs::path> filesIn(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  return files;
}

/// Other processes have nothing loaded: each test of the cache runs its part in a child.
void runFillWithCache(const fs::path& folder, const HostCompileOptions& options = {}) {
  ::setenv("KILN_HOST_CACHE", folder.c_str(), 1);
  runFill(*HostLibrary::compile(std::string(compileText) + "// for the cache\n", options));
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(CompileDeathTest, ServesOtherProcessesAndHealsItself) {
  testing::FLAGS_gtest_death_test_style = "fast";
  Folder folder;
  fs::path cache = folder.path() / "cache";
  EXPECT_EXIT(runFillWithCache(cache), testing::ExitedWithCode(0), "");
  std::vector<fs::path> files = filesIn(cache);
  ASSERT_EQ(files.size(), 1u); // complete, and no temporary file beside it
  EXPECT_EQ(files[0].extension(), ".so");
  auto written = fs::last_write_time(files[0]);

  EXPECT_EXIT(runFillWithCache(cache), testing::ExitedWithCode(0), "");
  EXPECT_EQ(fs::last_write_time(files[0]), written); // used, not built again

  fs::resize_file(files[0], 100);
  EXPECT_EXIT(runFillWithCache(cache), testing::ExitedWithCode(0), "");
  EXPECT_GT(fs::file_size(files[0]), 1000u);
  EXPECT_EQ(filesIn(cache).size(), 1u);
}

} // namespace
} // namespace kiln::test
