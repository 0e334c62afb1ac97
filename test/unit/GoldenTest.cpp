// Every golden text compiles for sm_90a by NVRTC with the device headers alone, and names in its
// launch plan the kernels that it holds.
#include "codegen/backend/Cubin.h"
#include "codegen/backend/LaunchPlan.h"
#include "codegen/backend/Nvrtc.h"
#include "test/backend/Kernels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace kiln;

namespace {

std::vector<std::filesystem::path> goldenFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_FOLDER "/test/emit"))
    if (entry.path().extension() == ".cu")
      files.push_back(entry.path());
  return files;
}

std::string textOf(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

CudaJob jobOf(const std::string& name, const std::string& source) {
  CudaJob job = test::deviceJob(source);
  job.name = name;
  return job;
}

TEST(Golden, EveryTextHasOne) {
  EXPECT_GE(goldenFiles().size(), 4u);
  for (std::filesystem::path file : goldenFiles())
    EXPECT_TRUE(exists(file.replace_extension(".mlir"))) << file;
}

TEST(Golden, CompilesByNvrtc) {
  if (std::string why = test::whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  for (const auto& file : goldenFiles()) {
    const CudaJob job = jobOf(file.filename(), textOf(file));
    CudaResult result = compileCuda(job);
    Cubin cubin = readCubin(result.cubin);
    LaunchPlan plan = launchPlanOfCuda(job.source);
    ASSERT_EQ(cubin.kernels.size(), plan.kernels.size()) << file;
    for (const KernelLaunch& launch : plan.kernels)
      EXPECT_EQ(usageOf(cubin, launch.name, result.log, launch.sharedBytes).spillStoreBytes, 0)
          << file << " " << launch.name;
  }
}

/// What kiln-place kept is held against what the device library takes, by the compiler.
TEST(Golden, PlacesThatAreTooSmallDoNotCompile) {
  if (std::string why = test::whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  const std::string text = textOf(KILN_SOURCE_FOLDER "/test/emit/channel_first.cu");
  const std::regex place(R"(static_assert\((.*) <= (\d+)\);)");
  int places = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), place), end; at != end; ++at, ++places) {
    const std::string smaller = std::to_string(std::stoi((*at)[2]) - 1);
    CudaJob job = jobOf(
        "smaller.cu", std::string(text).replace(static_cast<std::size_t>(at->position(2)),
                                                static_cast<std::size_t>(at->length(2)), smaller));
    EXPECT_THROW(compileCuda(job), Error) << (*at)[0];
  }
  EXPECT_EQ(places, 4);
}

TEST(Golden, LinesStayShort) {
  for (const auto& file : goldenFiles()) {
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);)
      EXPECT_TRUE(line.size() <= 100 || line.starts_with("// ")) << file << ": " << line;
  }
}

} // namespace
