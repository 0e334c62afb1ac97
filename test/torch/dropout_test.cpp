// at::native_dropout on Kiln's kernels, of tensors on the CPU: its mask is random, what follows
// from the mask is not.
#include "test/torch/Helpers.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

TEST(TorchDropout, WhatFollowsFromTheMaskIsATens) {
  enable(strictOnCpu());
  for (auto [dtype, p] :
       {std::pair(at::kFloat, 0.1), {at::kFloat, 1e-3}, {at::kBFloat16, 0.5}, {at::kHalf, 0.25}})
    for (const Tensor& x :
         {at::randn({20, 1024}),
          at::randn({4, 33, 8, 31}).contiguous(at::MemoryFormat::ChannelsLast), at::randn({})}) {
      const Tensor in = x.to(dtype).requires_grad_(), dy = at::randn_like(in);
      const auto forwards = callsByKiln("native_dropout"),
                 backwards = callsByKiln("native_dropout_backward");
      const auto [y, kept] = at::native_dropout(in, p, true);
      EXPECT_EQ(callsByKiln("native_dropout"), forwards + 1) << report();
      expectClose(y.detach(), at::native_dropout_backward(in.detach(), kept, 1 / (1 - p)), "y");
      EXPECT_EQ(kept.scalar_type(), at::kBool);
      EXPECT_EQ(kept.strides(), in.strides());
      const Tensor dx = torch::autograd::grad({y}, {in}, {dy})[0];
      EXPECT_GT(callsByKiln("native_dropout_backward"), backwards);
      const Tensor scaled = at::where(kept, dy.to(at::kFloat) / (1 - p), 0.0);
      expectClose(dx, scaled.to(dtype), "dx");
      const auto n = static_cast<double>(in.numel());
      EXPECT_NEAR(kept.sum().item<double>() / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n) + (n == 1));
    }
}

TEST(TorchDropout, MasksFollowTheGenerator) {
  enable(strictOnCpu());
  const Tensor x = at::ones({64, 1024});
  const auto draw = [&] { return std::get<1>(at::native_dropout(x, 0.5, true)); };
  at::manual_seed(5);
  const Tensor first = draw(), second = draw();
  at::manual_seed(5);
  EXPECT_TRUE(at::equal(draw(), first));
  EXPECT_TRUE(at::equal(draw(), second));
  at::manual_seed(6);
  // Of two unrelated masks about half of the elements agree.
  for (const Tensor& other : {second, draw()})
    EXPECT_NEAR(first.eq(other).to(at::kDouble).mean().item<double>(), 0.5, 0.02);
}

TEST(TorchDropout, WithNothingToDropOrAllATenRuns) {
  enable(onCpu());
  const Tensor x = at::randn({8, 16});
  const auto before = callsByKiln("native_dropout");
  EXPECT_TRUE(at::equal(std::get<0>(at::native_dropout(x, 0.5, false)), x));
  EXPECT_TRUE(at::equal(std::get<0>(at::native_dropout(x, 0, true)), x));
  EXPECT_TRUE(at::equal(std::get<0>(at::native_dropout(x, 1, true)), at::zeros_like(x)));
  EXPECT_TRUE(reports("not taken: nothing to drop, or all")) << report();
  EXPECT_EQ(callsByKiln("native_dropout"), before);
}

TEST(TorchDropout, WhatIsDroppedStaysNaNAsInATen) {
  enable(strictOnCpu());
  const Tensor x = at::full({4, 1024}, INFINITY);
  const auto [y, kept] = at::native_dropout(x, 0.5, true);
  EXPECT_TRUE(at::equal(y.isnan(), kept.logical_not()));
}

/// Beside what ATen makes of the same mask: of its own it would never agree.
TEST(TorchDropout, IsVerifiedByItsMask) {
  Options options = strictOnCpu();
  options.mode = Mode::verify;
  enable(options);
  const Tensor x = at::randn({10, 1024});
  const auto [y, kept] = at::native_dropout(x, 0.25, true);
  at::native_dropout_backward(y, kept, 1 / 0.75);
  EXPECT_TRUE(reports("0 of 1 differ")) << report();
}

} // namespace
