// Compiling: headers in memory, messages, several threads.
#include "codegen/backend/Cubin.h"
#include "test/backend/Kernels.h"

#include <fmt/format.h>
#include <future>
#include <vector>

using namespace kiln;
using namespace kiln::test;

namespace {

using Nvrtc = NvrtcTest;

TEST_F(Nvrtc, HeadersLogAndPtx) {
  CudaJob job;
  job.source = "#include \"kiln/half_of.cuh\"\nextern \"C\" __global__ void k(float* x) "
               "{ *x = half_of(*x); }";
  job.headers = {{"kiln/half_of.cuh", "inline float half_of(float v) { return v / 2; }"}};
  job.wantPtx = true;
  job.lineInfo = true;
  CudaResult result = compileCuda(job); // -default-device: no __device__ needed
  EXPECT_GT(result.cubin.size(), 500u);
  EXPECT_HAS(result.ptx, ".entry k(");
  EXPECT_HAS(result.log, "Function properties for k");
  EXPECT_GT(result.milliseconds, 0);
}

TEST_F(Nvrtc, ErrorsCarryTheLog) {
  CudaJob job;
  job.source = "#line 7 \"norm.mlir\"\nextern \"C\" __global__ void k() { oops(); }";
  std::string text = errorOf(ErrorKind::input, [&] { compileCuda(job); });
  EXPECT_HAS(text, "'kernel.cu' does not compile for sm_90a");
  EXPECT_HAS(text, "norm.mlir(7): error: identifier \"oops\" is undefined");
  EXPECT_HAS(text, "-std=c++20");
  job.arch = "sm_12345";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { compileCuda(job); }), "sm_90");
  job.source = plainSource;
  job.arch = "compute_90a";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { compileCuda(job); }), "name a real architecture");
  job.nvrtc = "/no/such/libnvrtc.so";
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [&] { compileCuda(job); }), "/no/such/libnvrtc.so");
}

TEST_F(Nvrtc, OptionsOfTheCallerReplaceOurs) {
  CudaJob job;
  job.source = "#if __cplusplus >= 202002L\n#error c++20\n#endif\n" + std::string(plainSource);
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { compileCuda(job); }), "c++20");
  job.options = {"-std=c++17"};
  EXPECT_FALSE(compileCuda(job).cubin.empty());
}

TEST_F(Nvrtc, ManyAtOnceDoNotMix) {
  std::vector<std::future<CudaResult>> results;
  for (int i = 0; i < 6; ++i)
    results.push_back(std::async(std::launch::async, [i] {
      CudaJob job;
      job.source = i == 2
                       ? "#error second"
                       : fmt::format("extern \"C\" __global__ void k{}(int* x) {{ *x = 1; }}", i);
      return compileCuda(job);
    }));
  for (int i = 0; i < 6; ++i)
    if (i == 2)
      EXPECT_HAS(errorOf(ErrorKind::input, [&] { results[2].get(); }), "second");
    else
      EXPECT_EQ(readCubin(results[i].get().cubin).kernels[0].name, fmt::format("k{}", i));
}

TEST_F(Nvrtc, Info) {
  NvrtcInfo info = nvrtcInfo();
  EXPECT_GE(info.major, 12);
  EXPECT_HAS(info.path, "nvrtc");
  EXPECT_NE(std::find(info.architectures.begin(), info.architectures.end(), 90),
            info.architectures.end());
}

} // namespace
