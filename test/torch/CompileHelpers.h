// What tests of kiln::compile share: on the host target, beside the function itself.
#pragma once

#include "test/torch/Helpers.h"

#include <kiln/compile.h>
#include <torch/csrc/autograd/autograd.h>
#include <vector>

namespace kiln::test::capture {

using at::Tensor;
using Tensors = std::vector<Tensor>;

inline CaptureOptions onHost(const std::string& name) {
  CaptureOptions options;
  options.name = name;
  options.place = Place::cpu;
  return options;
}

inline Tensor numbers(at::IntArrayRef sizes, double from = -1) {
  return at::randn(sizes) * 0.8 + 0.1 * from;
}

/// Results and gradients of both for these arguments, which want gradients, and the leaves.
inline void expectSame(const auto& compiled, const auto& f, const Tensors& values,
                       const Tensors& leaves) {
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
    if (theirs[i].numel() == 0)
      continue;
    const double scale = 1e-5 * (1 + theirs[i].abs().max().item<double>());
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, scale))
        << i << ": " << (ours[i] - theirs[i]).abs().max().item<double>();
  }
}

inline std::string usedOf(const CompiledFunction& compiled) {
  std::string text;
  for (const CompiledRegion& region : compiled.regions())
    text += (region.used ? "[" : "(not ") + region.ops + (region.used ? "]" : ")");
  return text;
}

/// Attentions that run as one.
inline std::size_t attentionsOf(const CompiledFunction& compiled) {
  std::size_t count = 0;
  for (const CompiledRegion& region : compiled.regions())
    count += region.isAttention && region.used;
  return count;
}

} // namespace kiln::test::capture
