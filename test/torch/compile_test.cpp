// kiln::compile on tensors of the CPU, whose regions the host target executes: blocks of models
// beside the functions themselves, what is fused and what is not and why, and what is refused.
#include "test/torch/Helpers.h"

#include <ATen/autocast_mode.h>
#include <kiln/compile.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/optim/adamw.h>

#include <thread>

namespace kiln::test::capture {

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

CaptureOptions onHost(const std::string& name) {
  CaptureOptions options;
  options.name = name;
  options.place = Place::cpu;
  return options;
}

Tensor numbers(at::IntArrayRef sizes, double from = -1) {
  return at::randn(sizes) * 0.8 + 0.1 * from;
}

/// Results and gradients of both for these arguments, which want gradients, and the leaves.
void expectSame(const auto& compiled, const auto& f, const Tensors& values, const Tensors& leaves) {
  const auto run = [&](const auto& function) {
    Tensors inputs;
    for (const Tensor& value : values)
      inputs.push_back(value.detach().requires_grad_(value.is_floating_point()));
    Tensors all = inputs;
    all.insert(all.end(), leaves.begin(), leaves.end());
    Tensors results = function(inputs);
    Tensors cotangents;
    for (const Tensor& result : results)
      cotangents.push_back(at::linspace(-1, 1.5, result.numel()).view(result.sizes()));
    const auto gradients = torch::autograd::grad(results, all, cotangents);
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
  const Tensors ours = run(compiled), theirs = run(f);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].sizes(), theirs[i].sizes());
    const double scale = 1e-5 * (1 + theirs[i].abs().max().item<double>());
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, scale))
        << i << ": " << (ours[i] - theirs[i]).abs().max().item<double>();
  }
}

std::string usedOf(const CompiledFunction& compiled) {
  std::string text;
  for (const CompiledRegion& region : compiled.regions())
    text += (region.used ? "[" : "(not ") + region.ops + (region.used ? "]" : ")");
  return text;
}

/// AlphaFold's transition: norm, four times as wide, back, residual.
struct TransitionImpl : torch::nn::Module {
  TransitionImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})))),
        up(register_module("up", torch::nn::Linear(64, 256))),
        down(register_module("down", torch::nn::Linear(256, 64))) {}
  Tensor forward(const Tensor& x) {
    return x + 0.5 * down->forward(at::relu(up->forward(norm->forward(x)) * 1.5));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Transition);

TEST(Compile, TransitionIsFusedForwardAndBackward) {
  at::manual_seed(1);
  Transition block;
  const Tensor x = numbers({3, 10, 64}).requires_grad_();
  const auto compiled = compile(block, x, onHost("transition"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[layer_norm][mul, relu][mul, add]") << compiled.report();
  const auto run = [&](const Tensors& t) { return Tensors{compiled(t[0])}; };
  const auto plain = [&](const Tensors& t) { return Tensors{block->forward(t[0])}; };
  expectSame(run, plain, {x}, block->parameters());
  expectSame(run, plain, {numbers({7, 64})}, block->parameters()); // another shape
  EXPECT_EQ(compiled.regions().size(), 6) << compiled.report();
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

} // namespace

} // namespace kiln::test::capture
