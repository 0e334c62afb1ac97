// What autocast computes in fp32: read as it is by one kernel, and in the types that ATen gives;
// and RMSNorm, whose input and weight have different types under it. On CPUs autocast leaves norms
// and softmaxes in the type of their input; here it is taught to do as it does for CUDA, so that
// the same code runs.
#include "test/torch/AutocastInFp32.h"
#include "test/torch/Helpers.h"

#include <torch/library.h>
#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

TORCH_LIBRARY_IMPL(aten, AutocastCPU, library) {
  library.impl("softmax.int", &softmaxInFp32);
  library.impl("log_softmax.int", &logSoftmaxInFp32);
  library.impl("layer_norm", &layerNormInFp32);
}

/// The result, its gradients, and the gradient of the square of the first of them.
template <typename Function>
std::vector<Tensor> run(const Function& function, const std::vector<Tensor>& values) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values)
    inputs.push_back(value.detach().requires_grad_());
  const Tensor y = [&] {
    const Autocast on(values[0].device().type());
    return function(inputs);
  }();
  const Tensor cotangent = at::linspace(-1, 1.5, y.numel()).view(y.sizes()).to(y.options());
  std::vector<Tensor> all = torch::autograd::grad({y}, inputs, {cotangent}, true);
  const Tensor again = torch::autograd::grad({y}, inputs, {cotangent}, true, true)[0];
  all.push_back(torch::autograd::grad({again.square().sum()}, {inputs[0]})[0]);
  all.push_back(y.detach());
  return all;
}

/// Dtypes of the input, the weight and the bias, as many as there are.
const std::vector<at::ScalarType> layerNorms[] = {
    {at::kBFloat16},
    {at::kBFloat16, at::kFloat},
    {at::kHalf, at::kFloat, at::kFloat},
    {at::kBFloat16, at::kBFloat16},
    {at::kBFloat16, at::kBFloat16, at::kBFloat16},
    {at::kHalf, at::kHalf, at::kHalf},
    {at::kHalf, at::kFloat, at::kHalf},
    {at::kBFloat16, at::kHalf, at::kFloat},
    {at::kFloat, at::kBFloat16, at::kBFloat16},
};

TEST(TorchAutocast, LayerNormReadsHalfPrecisionAndWritesFp32) {
  for (const auto& dtypes : layerNorms) {
    torch::manual_seed(1);
    std::vector<Tensor> values = {at::randn({3, 5, 40}).to(dtypes[0])};
    for (std::size_t i = 1; i < dtypes.size(); ++i)
      values.push_back(at::randn({40}).to(dtypes[i]));
    const auto norm = [](const std::vector<Tensor>& in) {
      return at::layer_norm(in[0], {40}, in.size() > 1 ? in[1] : Tensor(),
                            in.size() > 2 ? in[2] : Tensor(), 1e-5);
    };
    disable();
    const auto theirs = run(norm, values);
    enable(strictOnCpu());
    const auto forwards = callsByKiln("layer_norm"), backwards = callsByKiln("layer_norm_backward");
    const auto ours = run(norm, values);
    EXPECT_EQ(callsByKiln("layer_norm"), forwards + 1) << report();
    EXPECT_EQ(callsByKiln("layer_norm_backward"), backwards + 1) << report();
    EXPECT_EQ(ours.back().scalar_type(), at::kFloat);
    for (std::size_t i = 0; i < dtypes.size(); ++i)
      EXPECT_EQ(ours[i].scalar_type(), dtypes[i]);
    for (std::size_t i = 0; i < ours.size(); ++i)
      expectClose(ours[i], theirs[i], c10::str(dtypes, ", tensor ", i));
  }
}

TEST(TorchAutocast, LayerNormsWantedGradientsAlone) {
  for (unsigned bits = 1; bits < 8; ++bits) {
    std::vector<Tensor> leaves;
    for (int i = 0; i < 3; ++i)
      leaves.push_back((i == 0 ? at::randn({9, 24}) : at::randn({24}))
                           .to(i == 1 ? at::kHalf : at::kBFloat16)
                           .requires_grad_((bits >> i & 1) != 0));
    const Tensor dy = at::randn({9, 24});
    const auto gradients = [&] {
      const Tensor y = [&] {
        const Autocast on(at::kCPU);
        return at::layer_norm(leaves[0], {24}, leaves[1], leaves[2]);
      }();
      y.backward(dy);
      std::vector<Tensor> all;
      for (Tensor& leaf : leaves) {
        all.push_back(leaf.grad());
        leaf.mutable_grad() = Tensor();
      }
      return all;
    };
    disable();
    const auto theirs = gradients();
    enable(strictOnCpu());
    const auto before = callsByKiln("layer_norm_backward");
    const auto ours = gradients();
    EXPECT_EQ(callsByKiln("layer_norm_backward"), before + 1) << report();
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_EQ(ours[i].defined(), (bits >> i & 1) != 0);
      expectClose(ours[i], theirs[i], std::to_string(bits) + " " + std::to_string(i));
    }
  }
}

/// Autocast leaves it alone, and ATen has no kernel for an input and a weight of different types.
TEST(TorchAutocast, RmsNormTakesWeightsOfAnotherType) {
  for (auto [dtype, weights] : {std::pair(at::kBFloat16, at::kFloat),
                                {at::kHalf, at::kFloat},
                                {at::kFloat, at::kBFloat16},
                                {at::kHalf, at::kBFloat16}})
    for (const std::optional<double> eps : {std::optional(1e-3), std::optional<double>()}) {
      torch::manual_seed(1);
      const std::vector<Tensor> values = {at::randn({3, 5, 4, 10}).to(dtype),
                                          at::randn({4, 10}).to(weights)};
      const auto norm = [&](const std::vector<Tensor>& in) {
        return at::rms_norm(in[0], {4, 10}, in[1], eps);
      };
      disable();
      const auto theirs = run(norm, values);
      enable(strictOnCpu());
      const auto forwards = callsByKiln("rms_norm"), backwards = callsByKiln("rms_norm_backward");
      const auto ours = run(norm, values);
      EXPECT_EQ(callsByKiln("rms_norm"), forwards + 1) << report();
      EXPECT_EQ(callsByKiln("rms_norm_backward"), backwards + 1) << report();
      for (std::size_t i = 0; i < ours.size(); ++i)
        expectClose(ours[i], theirs[i], c10::str(dtype, ", weight ", weights, ", tensor ", i));
      const Tensor x = values[0].detach().requires_grad_(); // and no gradient of the weight
      const Tensor y = at::rms_norm(x, {4, 10}, values[1], eps);
      y.backward(at::linspace(-1, 1.5, y.numel()).view(y.sizes()).to(dtype));
      EXPECT_TRUE(at::equal(x.grad(), ours[0]));
    }
}

TEST(TorchAutocast, SoftmaxesReadHalfPrecisionAndWriteFp32) {
  for (const auto dtype : {at::kBFloat16, at::kHalf})
    for (const bool isLog : {false, true}) {
      torch::manual_seed(1);
      const Tensor x = at::randn({3, 5, 41}).to(dtype);
      const auto softmax = [&](const std::vector<Tensor>& in) {
        return isLog ? at::log_softmax(in[0], -1) : at::softmax(in[0], 2);
      };
      disable();
      const auto theirs = run(softmax, {x});
      enable(strictOnCpu());
      const std::string name = isLog ? "log_softmax" : "softmax";
      const auto forwards = callsByKiln(name + ".int"), backwards = callsByKiln(name + "_backward");
      const auto ours = run(softmax, {x});
      EXPECT_EQ(callsByKiln(name + ".int"), forwards + 1) << report();
      EXPECT_GT(callsByKiln(name + "_backward"), backwards) << report();
      EXPECT_EQ(ours.back().scalar_type(), at::kFloat);
      EXPECT_EQ(ours[0].scalar_type(), dtype);
      for (std::size_t i = 0; i < ours.size(); ++i)
        expectClose(ours[i], theirs[i], name + " " + std::to_string(i));
    }
  enable(onCpu());
  const Autocast on(at::kCPU); // what was asked for is what comes
  EXPECT_EQ(at::softmax(at::randn({2, 4}), 1, at::kDouble).scalar_type(), at::kDouble);
}

TEST(TorchAutocast, WhatNeedsNoCastIsBelow) {
  enable(strictOnCpu());
  const Tensor x = at::randn({6, 40}), w = at::randn({40});
  const auto before = callsByKiln("layer_norm"), below = callsByKiln("native_layer_norm");
  const auto norm = [&] {
    const Autocast on(at::kCPU);
    return at::layer_norm(x, {40}, w, w);
  };
  const Tensor ours = norm();
  EXPECT_EQ(callsByKiln("layer_norm"), before);
  EXPECT_EQ(callsByKiln("native_layer_norm"), below + 1);
  EXPECT_TRUE(reports("no cast to save")) << report();
  const auto rms = callsByKiln("rms_norm"), fused = callsByKiln("_fused_rms_norm");
  at::rms_norm(x, {40}, w);
  at::rms_norm(x, {40});
  EXPECT_EQ(callsByKiln("rms_norm"), rms);
  EXPECT_EQ(callsByKiln("_fused_rms_norm"), fused + 2);
  const Guard off(Mode::off);
  expectClose(ours, norm(), "layer_norm");
}

TEST(TorchAutocast, WeightsThatDoNotFitAreErrorsOfATens) {
  enable(onCpu());
  const Tensor x = at::randn({6, 4, 10}).to(at::kHalf), flat = at::randn({40}).to(at::kHalf);
  const Autocast on(at::kCPU);
  at::layer_norm(x, {4, 10}, flat.view({4, 10}), flat.view({4, 10}));
  at::rms_norm(x, {4, 10}, flat.to(at::kFloat).view({4, 10}));
  wait(); // these could run
  EXPECT_THROW(at::layer_norm(x, {4, 10}, flat), c10::Error);
  EXPECT_THROW(at::layer_norm(x, {4, 10}, flat.view({4, 10}), flat), c10::Error);
  EXPECT_THROW(at::rms_norm(x, {4, 10}, flat.to(at::kFloat)), c10::Error);
}

} // namespace
