// What tests of the LibTorch side share: options, comparisons, and kiln::report() read back.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <kiln/doctor.h>
#include <kiln/torch.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace kiln::test {

/// Calls of an op that Kiln's kernels ran, over all shapes.
inline std::uint64_t callsByKiln(const std::string& op) {
  std::istringstream lines(report());
  std::uint64_t sum = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(op + " ")) {
      // op, label of two words or more, calls, calls by Kiln, the rest: the columns are fixed
      std::istringstream numbers(line.substr(51));
      std::uint64_t calls = 0, used = 0;
      numbers >> calls >> used;
      sum += used;
    }
  return sum;
}

/// Rows of cross-entropies whose class is none.
inline std::uint64_t rowsOutside() {
  const std::string text = report(), before = "warning on cross_entropy_loss: ";
  const std::size_t at = text.find(before);
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + before.size()));
}

inline bool reports(const std::string& text) {
  return report().find(text) != std::string::npos;
}

/// The host target runs what is given on the CPU; random numbers are the same in each test.
class OnHostTarget : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_PLACE", "cpu", 1);
    at::manual_seed(1);
  }
  void TearDown() override { ::unsetenv("KILN_PLACE"); }
};

/// NVRTC, without which nothing can be stored.
inline bool hasCompiler() {
  for (const Finding& finding : doctor())
    if (finding.name == "NVRTC")
      return finding.state == Finding::State::found;
  return false;
}

inline at::TensorOptions onGpu(at::ScalarType dtype = at::kFloat) {
  return at::TensorOptions(at::kCUDA).dtype(dtype);
}
inline Options onCpu() {
  Options options;
  options.place = Place::cpu;
  return options;
}
inline Options strictOnCpu() {
  Options options = onCpu();
  options.strict = true;
  return options;
}

/// Calls on the CPU wait for Kiln's kernels, which tests compare with fp64 at sizes of their own;
/// random numbers are the same in each test.
class StrictOnCpu : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_FIRST_CHECK", "0", 1);
    at::manual_seed(1);
    enable(strictOnCpu());
  }
  void TearDown() override {
    ::unsetenv("KILN_FIRST_CHECK");
    disable();
  }
};

/// The compiler has other things to do for a while: what is asked for next has most likely no
/// kernel before release(). How many calls had none is counted where there are several.
class BusyCompiler {
 public:
  explicit BusyCompiler(int kernels = 12) {
    // Other ones in each process: what is kept of an earlier run takes no time.
    static std::int64_t width = 700 + getpid() % 400 * 10;
    for (int i = 0; i < kernels; ++i) {
      const at::Tensor x = at::ones({2, ++width}), s = at::ones({2, 1});
      at::native_layer_norm_backward(x, x, {width}, s, s, x[0], x[0], {true, true, true});
    }
  }
  ~BusyCompiler() { release(); }
  BusyCompiler(const BusyCompiler&) = delete;
  BusyCompiler& operator=(const BusyCompiler&) = delete;
  void release() { wait(); }
};

inline double toleranceOf(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1.6e-2;
}

inline void expectClose(const at::Tensor& ours, const at::Tensor& theirs, const std::string& what) {
  ASSERT_EQ(ours.defined(), theirs.defined()) << what;
  if (!ours.defined())
    return;
  EXPECT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_EQ(ours.strides(), theirs.strides()) << what;
  EXPECT_EQ(ours.scalar_type(), theirs.scalar_type()) << what;
  if (theirs.numel() == 0)
    return;
  const double tolerance = toleranceOf(theirs.scalar_type());
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), theirs.to(at::kDouble), tolerance,
                           tolerance * (1 + theirs.to(at::kDouble).abs().max().item<double>()),
                           /*equal_nan=*/true))
      << what << ": " << (ours - theirs).abs().max().item<double>();
}

} // namespace kiln::test
