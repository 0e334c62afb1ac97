// What tests of fused functions share: on the host target, with gradients, beside formulas.
#pragma once

#include "test/torch/Helpers.h"

#include <functional>
#include <kiln/fuse.h>
#include <torch/csrc/autograd/autograd.h>
#include <vector>

namespace kiln::test::fused {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;
using Sizes = std::vector<std::int64_t>;

inline FuseOptions onHost(const std::string& name) {
  return {.name = name, .place = Place::cpu};
}

/// What a call throws, or nothing.
template <typename Call> std::string errorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Results, then gradients of the operands for fixed cotangents.
inline Tensors run(const Function& function, const Tensors& values) {
  Tensors inputs;
  for (const Tensor& value : values)
    inputs.push_back(value.is_floating_point() ? value.detach().requires_grad_() : value);
  Tensors results = function(inputs), roots, cotangents, leaves;
  for (const Tensor& result : results)
    if (result.requires_grad()) {
      roots.push_back(result);
      cotangents.push_back(
          at::linspace(-1, 1.5, result.numel()).view(result.sizes()).to(result.scalar_type()));
    }
  for (const Tensor& input : inputs)
    if (input.requires_grad())
      leaves.push_back(input);
  const auto gradients = torch::autograd::grad(roots, leaves, cotangents);
  for (Tensor& result : results)
    result = result.detach();
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// Of a tensor's largest element: a few roundings of the dtype.
inline double allowed(at::ScalarType type) {
  return type == at::kFloat ? 2e-5 : type == at::kHalf ? 4e-3 : 3e-2;
}

/// A fused function of one to three operands as one of lists.
inline Function of(const auto& fused) {
  return [fused](const Tensors& t) {
    const auto list = [](const auto& result) {
      if constexpr (std::is_same_v<std::decay_t<decltype(result)>, Tensor>)
        return Tensors{result};
      else
        return Tensors(result.begin(), result.end());
    };
    if constexpr (requires { fused(t[0]); })
      return list(fused(t[0]));
    else if constexpr (requires { fused(t[0], t[1]); })
      return list(fused(t[0], t[1]));
    else
      return list(fused(t[0], t[1], t[2]));
  };
}

} // namespace kiln::test::fused
