// CUDA texts for the tests, and the check whether they can be compiled here.
#pragma once

#include "codegen/backend/Driver.h"
#include "test/backend/DeviceText.h"
#include "test/backend/Helpers.h"

namespace kiln::test {

inline const char* plainSource = R"(
extern "C" __global__ void __launch_bounds__(256, 2) plain(float* x, long long n) {
  __shared__ float s[16];
  s[threadIdx.x & 15] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[(threadIdx.x + 1) & 15] * n;
}
extern "C" __global__ void bare(float* x) { x[threadIdx.x] = 1.0f; }
)";

/// Many live values and few registers allowed: the assembler must spill.
inline const char* spillingSource = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* x, int n) {
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = x[threadIdx.x + 1024 * i];
  for (int k = 0; k < n; ++k) {
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 7) % 96] + v[(i + 31) % 96];
  }
#pragma unroll
  for (int i = 0; i < 96; ++i) x[threadIdx.x + 1024 * i] = v[i];
}
)";

/// Why no kernel can be compiled and launched here; empty: it can.
inline std::string whyNothingRuns() {
  std::string why = whyNoGpu();
  return why.empty() ? whyNoNvrtc() : why;
}

/// Base of the tests that compile; they skip by name where NVRTC is missing.
class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = whyNoNvrtc(); !why.empty())
      GTEST_SKIP() << why;
  }
};

} // namespace kiln::test
