// Calls of at::scaled_dot_product_attention that tests make: arguments, results with gradients.
#pragma once

#include "test/torch/Helpers.h"

#include <torch/csrc/autograd/autograd.h>

namespace kiln::test {

inline constexpr const char* kForward = "scaled_dot_product_attention";
inline constexpr const char* kBackward = "attention_backward";

struct Arguments {
  at::Tensor q, k, v;
  std::optional<at::Tensor> mask = {};
  bool causal = false;
  std::optional<double> scale = {};
  bool shared = false;
  double p = 0;

  at::Tensor call() const {
    return at::scaled_dot_product_attention(q, k, v, mask, p, causal, scale, shared);
  }
  bool hasBias() const { return mask && mask->is_floating_point(); }
  /// Leaves with the same strides, of that type.
  Arguments leaves(std::optional<at::ScalarType> type = {}) const {
    const auto leaf = [&](const at::Tensor& tensor) {
      const auto to = type.value_or(tensor.scalar_type());
      const at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
      copy.as_strided({static_cast<std::int64_t>(copy.storage().nbytes() / copy.itemsize())}, {1})
          .zero_();
      const bool overlaps = !tensor.is_non_overlapping_and_dense();
      return (overlaps ? tensor : copy.copy_(tensor)).to(to).detach().requires_grad_();
    };
    Arguments all = *this;
    all.q = leaf(q);
    all.k = leaf(k);
    all.v = leaf(v);
    if (hasBias())
      all.mask = leaf(*mask);
    return all;
  }
  std::vector<at::Tensor> inputs() const {
    return hasBias() ? std::vector<at::Tensor>{q, k, v, *mask} : std::vector<at::Tensor>{q, k, v};
  }
};

/// The result, and gradients for a fixed cotangent.
inline std::vector<at::Tensor> results(const Arguments& all) {
  const at::Tensor y = all.call();
  const at::Tensor dy = at::linspace(-1, 1.5, y.numel()).view(y.sizes()).to(y.scalar_type());
  std::vector<at::Tensor> made = torch::autograd::grad({y}, all.inputs(), {dy});
  made.insert(made.begin(), y.detach());
  return made;
}

} // namespace kiln::test
