// A bias of each slice of a call, shared within it: the call is one for each slice, whose results
// are parts of one.
#include "test/torch/Helpers.h"

#include <torch/csrc/autograd/autograd.h>

#include <functional>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

constexpr std::int64_t kSlices = 2, kSharing = 8, kHeads = 2, kRows = 256, kWidth = 16;

class AttentionSlices : public StrictOnCpu {};

/// Queries, keys and values of [slices, sharing, heads, rows, width] as one product makes them of
/// pairs, or of pairs the other way round; and a bias.
std::vector<Tensor> operands(bool isTurned, at::ScalarType type) {
  const Tensor all = at::randn({kSlices, kSharing, kRows, 3, kHeads, kWidth}).to(type);
  const Tensor turned = at::randn({kSlices, kRows, kSharing, 3, kHeads, kWidth}).to(type);
  std::vector<Tensor> made;
  for (int i = 0; i < 3; ++i) {
    const Tensor part =
        isTurned ? turned.select(3, i).transpose(1, 2) : all.select(3, i); // [T, A, s, h, d]
    made.push_back(part.transpose(2, 3).detach().requires_grad_());
  }
  made.push_back(at::randn({kSlices, 1, kHeads, kRows, kRows}).to(type).requires_grad_());
  return made;
}

std::vector<Tensor> results(const std::vector<Tensor>& x, const Tensor& cotangent) {
  const Tensor y = at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]);
  std::vector<Tensor> made =
      torch::autograd::grad({y}, x, {cotangent.to(y.scalar_type()).view(y.sizes())});
  made.insert(made.begin(), y.detach());
  return made;
}

TEST_F(AttentionSlices, AreNearFp64AndPartsOfOneResult) {
  for (const bool isTurned : {false, true}) {
    const std::vector<Tensor> given = operands(isTurned, at::kBFloat16);
    const Tensor cotangent = at::randn({kSlices * kSharing * kHeads * kRows * kWidth});
    const std::vector<Tensor> found = results(given, cotangent);
    EXPECT_TRUE(reports("8x2x256x16 bf16")) << report(); // of one slice
    EXPECT_FALSE(reports("16x2x256x16 bf16")) << report();
    for (int i = 1; i < 4; ++i) {
      EXPECT_EQ(found[i].strides(), given[0].strides()) << i;
      EXPECT_TRUE(found[i].is_alias_of(found[1])) << i;
    }
    std::vector<Tensor> exact;
    {
      const Guard off(Mode::off);
      std::vector<Tensor> wide;
      for (const Tensor& one : given)
        wide.push_back(one.detach().to(at::kDouble).requires_grad_());
      exact = results(wide, cotangent);
    }
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].sizes(), exact[i].sizes()) << i;
      const double error = (found[i].to(at::kDouble) - exact[i]).abs().max().item<double>();
      EXPECT_LE(error, 2e-2 * (0.1 + exact[i].abs().max().item<double>())) << i;
    }
  }
}

/// Where a slice is short, or numbers are drawn, a call stays whole.
TEST_F(AttentionSlices, AreOfLongCallsWithoutDropout) {
  std::vector<Tensor> x = operands(false, at::kBFloat16);
  const at::NoGradGuard constant;
  at::scaled_dot_product_attention(x[0], x[1], x[2], x[3], /*dropout_p=*/0.5);
  EXPECT_TRUE(reports("16x2x256x16 bf16")) << report();
  for (Tensor& one : x)
    one = one.slice(-2, 0, 64);
  x[3] = x[3].slice(-1, 0, 64).contiguous();
  at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]);
  EXPECT_TRUE(reports("16x2x64x16 bf16")) << report();
}

} // namespace
