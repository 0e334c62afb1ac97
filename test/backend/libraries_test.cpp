// Where NVRTC and the driver are looked for, and what the error says when they are not there.
#include "codegen/backend/Libraries.h"
#include "test/backend/Helpers.h"

#include <algorithm>
#include <fstream>

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

std::ptrdiff_t indexOf(const std::vector<LibraryPlace>& places, const fs::path& path) {
  auto found = std::find_if(places.begin(), places.end(),
                            [&](const LibraryPlace& place) { return place.path == path.string(); });
  return found == places.end() ? -1 : found - places.begin();
}

TEST(Libraries, ExplicitPathIsTheOnlyPlace) {
  TemporaryFolder folder;
  Environment variable("KILN_NVRTC", "/elsewhere");
  fs::path file = folder.path / "my-nvrtc.so";
  std::vector<LibraryPlace> places = nvrtcPlaces(file);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].path, file.string());
  std::string text = errorOf(ErrorKind::unavailable, [&] { openNvrtc(file); });
  EXPECT_HAS(text, file.string() + " (--nvrtc): no such file");
  EXPECT_HAS(text, "pip install nvidia-cuda-nvrtc");
  EXPECT_HAS(text, "--nvrtc=PATH");
}

TEST(Libraries, FolderAndVariable) {
  TemporaryFolder folder;
  Environment variable("KILN_NVRTC", folder.path.c_str());
  std::vector<LibraryPlace> places = nvrtcPlaces();
  EXPECT_EQ(indexOf(places, folder.path / "libnvrtc.so.13"), 0);
  EXPECT_EQ(indexOf(places, folder.path / "libnvrtc.so.12"), 1);
  EXPECT_GT(indexOf(places, folder.path / "lib64/libnvrtc.so.13"), 1);
  EXPECT_EQ(indexOf(places, "libnvrtc.so.13"), -1);
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { openNvrtc(); }), "(KILN_NVRTC): no such file");
}

TEST(Libraries, FileThatIsNoLibrary) {
  TemporaryFolder folder;
  fs::path file = folder.path / "libnvrtc.so.13";
  std::ofstream(file) << "not a library";
  std::string text = errorOf(ErrorKind::unavailable, [&] { openNvrtc(file); });
  EXPECT_HAS(text, file.string() + " (--nvrtc): ");
  EXPECT_FALSE(contains(text, "no such file"));
  std::vector<LibraryAttempt> attempts;
  EXPECT_THROW(openNvrtc("libm.so.6", &attempts), Error);
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].result, "has no symbol nvrtcCompileProgram");
}

TEST(Libraries, SearchOrder) {
  TemporaryFolder folder;
  fs::path site = folder.path / "venv/lib/python3.12/site-packages";
  fs::create_directories(site);
  fs::create_directories(folder.path / "work/.venv/lib/python3.11/site-packages");
  fs::create_directories(folder.path / "work/deep");
  Environment none("KILN_NVRTC", nullptr);
  Environment home("CUDA_HOME", "/opt/cuda-home");
  Environment path("CUDA_PATH", "/opt/cuda-path");
  Environment torch("KILN_TORCH", "/opt/a::/opt/site/torch");
  Environment virtualEnv("VIRTUAL_ENV", (folder.path / "venv").c_str());
  fs::path before = fs::current_path();
  fs::current_path(folder.path / "work/deep");
  std::vector<LibraryPlace> places = nvrtcPlaces();
  fs::current_path(before);
  const fs::path wanted[] = {
      "/opt/cuda-home/lib64/libnvrtc.so.13",
      "/opt/cuda-home/targets/x86_64-linux/lib/libnvrtc.so.13",
      "/opt/cuda-path/lib64/libnvrtc.so.13",
      "/usr/local/cuda/lib64/libnvrtc.so.13",
      "/opt/a/nvidia/cu13/lib/libnvrtc.so.13",
      "/opt/site/nvidia/cu13/lib/libnvrtc.so.13",
      "/opt/site/torch/lib/libnvrtc.so.13",
      site / "nvidia/cu13/lib/libnvrtc.so.13",
      site / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
      fs::canonical(folder.path) /
          "work/.venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
      "libnvrtc.so.13",
      "libnvrtc.so.12"};
  std::ptrdiff_t last = -1;
  for (const fs::path& next : wanted) {
    std::ptrdiff_t index = indexOf(places, next);
    EXPECT_GT(index, last) << next;
    last = index;
  }
}

TEST(Libraries, DriverPlacesNameNoStub) {
  for (const LibraryPlace& place : driverPlaces()) {
    EXPECT_EQ(fs::path(place.path).filename(), "libcuda.so.1");
    EXPECT_FALSE(contains(place.path, "stubs"));
  }
  EXPECT_EQ(driverPlaces()[0].path, "libcuda.so.1");
}

TEST(Libraries, MissingDriverSaysWhereItLooked) {
  std::vector<LibraryAttempt> attempts;
  try {
    openDriver(&attempts);
    GTEST_SKIP() << "a driver is installed here";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    std::string text = error.what();
    EXPECT_HAS(text, "the NVIDIA driver (libcuda.so.1 of version 525 or newer) is missing");
    for (const LibraryPlace& place : driverPlaces())
      EXPECT_HAS(text, place.path + " (");
    EXPECT_HAS(text, "--gpus all");
  }
  EXPECT_EQ(attempts.size(), driverPlaces().size());
  EXPECT_HAS(describe(attempts), "  libcuda.so.1 (loader): ");
}

} // namespace
