// Every golden text compiles for sm_90a by NVRTC with the device headers alone, and names in its
// launch plan the kernels that it holds.
#include "codegen/backend/Cubin.h"
#include "codegen/backend/LaunchPlan.h"
#include "codegen/backend/Nvrtc.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

extern "C" const struct {
  const char *name, *text;
} kiln_device_files[];

using namespace kiln;

namespace {

std::vector<std::filesystem::path> goldenFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_FOLDER "/test/emit"))
    if (entry.path().extension() == ".cu")
      files.push_back(entry.path());
  return files;
}

TEST(Golden, EveryTextHasOne) {
  EXPECT_GE(goldenFiles().size(), 4u);
  for (std::filesystem::path file : goldenFiles())
    EXPECT_TRUE(exists(file.replace_extension(".mlir"))) << file;
}

TEST(Golden, CompilesByNvrtc) {
  try {
    nvrtcInfo();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const auto& file : goldenFiles()) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    CudaJob job;
    job.source = text.str();
    job.name = file.filename();
    for (const auto* header = kiln_device_files; header->name; ++header)
      job.headers.push_back({header->name, header->text});
    CudaResult result = compileCuda(job);
    Cubin cubin = readCubin(result.cubin);
    LaunchPlan plan = launchPlanOfCuda(job.source);
    ASSERT_EQ(cubin.kernels.size(), plan.kernels.size()) << file;
    for (const KernelLaunch& launch : plan.kernels)
      EXPECT_EQ(usageOf(cubin, launch.name, result.log, launch.sharedBytes).spillStoreBytes, 0)
          << file << " " << launch.name;
  }
}

TEST(Golden, LinesStayShort) {
  for (const auto& file : goldenFiles()) {
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);)
      EXPECT_TRUE(line.size() <= 100 || line.starts_with("// ")) << file << ": " << line;
  }
}

} // namespace
