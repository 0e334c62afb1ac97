// Norms that a model writes out in single ops: Kiln takes none of them, and the report says so and
// by which call it would. What only resembles one is not spoken of.
#include "test/torch/Helpers.h"

#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class WrittenNorms : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    enable(onCpu());
  }
  void TearDown() override { disable(); }

  /// Calls that the report names as a norm written out.
  static std::uint64_t seen() {
    std::istringstream lines(report());
    std::uint64_t calls = 0;
    for (std::string line; std::getline(lines, line);)
      if (line.find("a norm written out") != std::string::npos)
        std::istringstream(line.substr(51)) >> calls;
    return calls;
  }
  static std::uint64_t seenIn(const std::function<Tensor()>& call) {
    const auto before = seen();
    call();
    return seen() - before;
  }

  const Tensor x = at::randn({2, 5, 24}), weight = at::randn({24});
};

Tensor inverseRoot(const Tensor& x) {
  return at::rsqrt(x.to(at::kFloat).pow(2).mean(-1, true) + 1e-6);
}
Tensor asT5(const Tensor& x, const Tensor& weight) {
  return weight * (x * inverseRoot(x)).to(weight.scalar_type());
}
Tensor asLlama(const Tensor& x, const Tensor& weight) {
  const Tensor wide = x.to(at::kFloat);
  return weight * (wide * inverseRoot(wide)).to(x.scalar_type());
}

TEST_F(WrittenNorms, OfT5AndLlamaAreNamed) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor in = x.to(dtype), scale = weight.to(dtype);
    EXPECT_EQ(seenIn([&] { return asT5(in, scale); }), 1u) << dtype;
    EXPECT_EQ(seenIn([&] { return asLlama(in, scale); }), 1u) << dtype;
  }
  EXPECT_TRUE(reports("as one op Kiln takes it: torch.nn.functional.rms_norm (in C++ at::rms_norm "
                      "or kiln::nn::RMSNorm"))
      << report();
}

TEST_F(WrittenNorms, AreNamedOnceAForwardWithGradients) {
  const Tensor in = x.detach().requires_grad_(), scale = weight.detach().requires_grad_();
  EXPECT_EQ(seenIn([&] {
              const Tensor y = asLlama(in, scale);
              y.sum().backward();
              return y;
            }),
            1u);
  EXPECT_TRUE(in.grad().defined());
}

TEST_F(WrittenNorms, OfASubtractedMeanAreNamedToo) {
  EXPECT_EQ(seenIn([&] {
              const Tensor centred = x - x.mean(2, /*keepdim=*/true);
              return centred * at::rsqrt(centred.square().mean(2, true) + 1e-5);
            }),
            1u);
}

TEST_F(WrittenNorms, AreNoErrorInStrictMode) {
  enable(strictOnCpu());
  EXPECT_EQ(seenIn([&] { return asT5(x, weight); }), 1u);
}

TEST_F(WrittenNorms, OtherInverseRootsAreNot) {
  const Tensor image = at::rand({3, 4, 6, 6});
  const auto none = [](const char* what, const std::function<Tensor()>& call) {
    EXPECT_EQ(seenIn(call), 0u) << what;
  };
  none("plain", [&] { return at::rsqrt(image); });
  none("of a column, no mean before", [&] { return at::rsqrt(at::rand({10, 1})); });
  none("a batch norm", [&] {
    const Tensor variance = (image - image.mean({0, 2, 3}, true)).square().mean({0, 2, 3});
    return image * at::rsqrt(variance + 1e-5).view({1, 4, 1, 1});
  });
  none("of a mean that keeps no dimension",
       [&] { return at::rsqrt(x.square().mean(-1) + 1e-5).unsqueeze(-1) * x; });
  none("of another dimension", [&] { return x * at::rsqrt(x.square().mean(1, true) + 1e-5); });
  none("of a column of other rows than the mean's", [&] {
    x.mean(-1, true);
    return at::rsqrt(at::rand({3, 1}));
  });
  inverseRoot(x);
  none("the second of one mean", [&] { return at::rsqrt(at::rand({2, 5, 1})); });
}

/// ATen composes these of the same ops where it has no kernel.
TEST_F(WrittenNorms, NormsThatAreOneOpAreNot) {
  const Tensor in = x.to(at::kBFloat16);
  EXPECT_EQ(seenIn([&] { return at::rms_norm(x, {24}, weight, 1e-6); }), 0u);
  EXPECT_EQ(seenIn([&] { return at::rms_norm(in, {24}, weight, 1e-6); }), 0u);
  EXPECT_EQ(seenIn([&] { return at::rms_norm(x.to(at::kDouble), {24}, {}, 1e-6); }), 0u);
  EXPECT_EQ(seenIn([&] {
              const Tensor leaf = x.detach().requires_grad_();
              const Tensor y = at::rms_norm(leaf, {24}, weight, 1e-6);
              y.sum().backward();
              return y;
            }),
            0u);
  EXPECT_EQ(seenIn([&] { return std::get<0>(at::_fused_rms_norm(x, {24}, weight, 1e-6)); }), 0u);
}

TEST_F(WrittenNorms, AreNotSpokenOfWhereRmsNormIsATens) {
  const Guard off(Mode::off);
  EXPECT_EQ(seenIn([&] { return asT5(x, weight); }), 0u);
  Options others = onCpu();
  others.ops = "-rms_norm";
  const Guard without(others);
  EXPECT_EQ(seenIn([&] { return asT5(x, weight); }), 0u);
}

/// What is passed on is ATen's result, to the bit.
TEST_F(WrittenNorms, ComputeAsBefore) {
  const Tensor ours = asLlama(x, weight);
  const Tensor means = at::mean(x, {1, 2}, true, at::kDouble);
  disable();
  EXPECT_TRUE(at::equal(ours, asLlama(x, weight)));
  EXPECT_TRUE(at::equal(means, at::mean(x, {1, 2}, true, at::kDouble)));
  EXPECT_EQ(means.scalar_type(), at::kDouble);
}

} // namespace
