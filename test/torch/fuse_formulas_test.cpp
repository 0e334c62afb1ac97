// kiln::fuse on tensors of the CPU, whose kernels the host target executes: results and gradients
// of many functions beside ATen's formulas in fp64, with every kind of broadcast.
#include "test/torch/FuseHelpers.h"

namespace kiln::test::fused {

namespace {

struct Case {
  const char* name;
  Function fused, formula;
  std::vector<Sizes> shapes;
};

std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << one.name;
}

template <typename F>
Case makeCase(const char* name, const F& f, Function formula, std::vector<Sizes> shapes) {
  return {name, of(fuse(f, onHost(name))), std::move(formula), std::move(shapes)};
}

std::vector<Case> cases() {
  return {
      makeCase(
          "gate", [](Expr x, Expr g, Expr b) { return x * sigmoid(g + b); },
          [](const Tensors& t) { return Tensors{t[0] * at::sigmoid(t[1] + t[2])}; },
          {{6, 40}, {6, 40}, {40}}),
      makeCase(
          "math",
          [](Expr x, Expr y) {
            return exp(-abs(x)) + log(square(y) + 1) * tanh(x) / (2 + erf(y)) -
                   sqrt(square(x) + 0.5) + rsqrt(1 + square(y)) + gelu(x) + gelu(y, Gelu::tanh) +
                   silu(x) + relu(y);
          },
          [](const Tensors& t) {
            const Tensor &x = t[0], &y = t[1];
            return Tensors{at::exp(-x.abs()) + at::log(y * y + 1) * at::tanh(x) / (2 + at::erf(y)) -
                           at::sqrt(x * x + 0.5) + at::rsqrt(1 + y * y) + at::gelu(x) +
                           at::gelu(y, "tanh") + at::silu(x) + at::relu(y)};
          },
          {{3, 17}, {3, 17}}),
      makeCase(
          "choice",
          [](Expr x, Expr y) {
            return where(x > y, x * 3, y) + max(x, 0.25) - min(y, x) + where(x <= 0, 1, x);
          },
          [](const Tensors& t) {
            const Tensor &x = t[0], &y = t[1];
            return Tensors{at::where(x > y, x * 3, y) + x.clamp_min(0.25) - at::minimum(y, x) +
                           at::where(x <= 0, at::ones_like(x), x)};
          },
          {{4, 24}, {4, 24}}),
      makeCase(
          "rows",
          [](Expr x, Expr w) {
            return std::array{(x - mean(x)) * sum(w * x) + max(x), min(x) * w};
          },
          [](const Tensors& t) {
            const Tensor &x = t[0], &w = t[1];
            return Tensors{(x - x.mean(-1, true)) * (w * x).sum(-1, true) + x.amax(-1, true),
                           x.amin(-1, true) * w};
          },
          {{2, 3, 32}, {32}}),
      makeCase(
          "norms",
          [](Expr x, Expr g, Expr b) {
            return std::tuple{layerNorm(x, g, b, 1e-5), softmax(rmsNorm(x, g)) + logSoftmax(x)};
          },
          [](const Tensors& t) {
            const Tensor& x = t[0];
            const Tensor r = x * (x.square().mean(-1, true) + 1e-6).rsqrt() * t[1];
            return Tensors{at::layer_norm(x, {64}, t[1], t[2], 1e-5),
                           at::softmax(r, -1) + at::log_softmax(x, -1)};
          },
          {{5, 64}, {64}, {64}}),
      makeCase(
          "residual", [](Expr x, Expr r, Expr g) { return std::array{x + r, rmsNorm(x + r, g)}; },
          [](const Tensors& t) {
            const Tensor s = t[0] + t[1];
            return Tensors{s, s * (s.square().mean(-1, true) + 1e-6).rsqrt() * t[2]};
          },
          {{7, 48}, {7, 48}, {48}}),
      makeCase(
          "spread", [](Expr x, Expr m, Expr p) { return softmax(x + m) * p; },
          [](const Tensors& t) { return Tensors{at::softmax(t[0] + t[1], -1) * t[2]}; },
          {{2, 3, 4, 16}, {2, 1, 1, 16}, {4, 1}}),
      makeCase(
          "modulated", [](Expr x, Expr s, Expr t) { return layerNorm(x, 1 + s, t); },
          [](const Tensors& t) { return Tensors{at::layer_norm(t[0], {16}) * (1 + t[1]) + t[2]}; },
          {{2, 5, 16}, {2, 1, 16}, {2, 1, 16}}),
      makeCase(
          "odd", [](Expr x, Expr s) { return x * s + 1; },
          [](const Tensors& t) { return Tensors{t[0] * t[1] + 1}; }, {{3, 1}, {}}),
      makeCase(
          "vectors", [](Expr x, Expr y) { return x * y; },
          [](const Tensors& t) { return Tensors{t[0] * t[1]}; }, {{33}, {33}}),
  };
}

class Fuse : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

TEST_P(Fuse, AgreesWithFormulasInFp64) {
  const auto& [one, dtype] = GetParam();
  at::manual_seed(1);
  Tensors values, exact;
  for (const Sizes& shape : one.shapes) {
    values.push_back(at::randn(shape).to(dtype));
    exact.push_back(values.back().to(at::kDouble));
  }
  const Tensors ours = run(one.fused, values), theirs = run(one.formula, exact),
                again = run(one.fused, values);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].scalar_type(), dtype);
    ASSERT_EQ(ours[i].sizes(), theirs[i].sizes()) << i;
    const double error = (ours[i].to(at::kDouble) - theirs[i]).abs().max().item<double>();
    EXPECT_LE(error, allowed(dtype) * (1 + theirs[i].abs().max().item<double>())) << i;
    EXPECT_TRUE(at::equal(ours[i], again[i])) << "not repeatable: " << i;
  }
  EXPECT_GE(callsByKiln(one.name), 2U) << report();
}

INSTANTIATE_TEST_SUITE_P(Torch, Fuse,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  c10::toString(std::get<1>(info.param));
                         });

/// The forward keeps for the backward what a mask of fewer rows is like in all of them, whose sizes
/// only another operand has.
TEST(FuseMasks, OfFewerRowsAreKeptForTheBackward) {
  const auto f = of(fuse([](Expr x, Expr m) { return softmax(where(m, -5, x)); }, onHost("few")));
  const auto formula = [](const Tensors& t) {
    return Tensors{t[0].masked_fill(t[1], -5).softmax(-1)};
  };
  at::manual_seed(2);
  const Tensor x = at::randn({2, 3, 5, 7});
  for (const Sizes& sizes :
       {Sizes{5, 7}, Sizes{2, 1, 5, 7}, Sizes{1, 3, 5, 7}, Sizes{2, 3, 1, 7}}) {
    const Tensor mask = at::rand(sizes) > 0.4;
    const Tensors ours = run(f, {x, mask}), theirs = run(formula, {x.to(at::kDouble), mask});
    for (std::size_t i = 0; i < theirs.size(); ++i)
      EXPECT_LE((ours[i] - theirs[i]).abs().max().item<double>(), 1e-5)
          << mask.sizes() << ": " << i;
  }
}

} // namespace

} // namespace kiln::test::fused
