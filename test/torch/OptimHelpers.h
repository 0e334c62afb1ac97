// What the tests of optimizers share, on the CPU and on a GPU.
#pragma once

#include "test/torch/Helpers.h"

#include <kiln/optim.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace kiln::test {

using Tensors = std::vector<at::Tensor>;

/// Parameters of their own with the same numbers, or those rounded to `dtype`.
inline Tensors clones(const Tensors& tensors, std::optional<at::ScalarType> dtype = {}) {
  Tensors all;
  for (const at::Tensor& tensor : tensors)
    all.push_back(tensor.detach()
                      .to(dtype.value_or(tensor.scalar_type()), false, /*copy=*/true)
                      .requires_grad_());
  return all;
}

/// The largest difference of an element.
inline double worst(const Tensors& ours, const Tensors& theirs) {
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i].numel() > 0)
      worst =
          std::max(worst, (ours[i].detach().to(at::kDouble) - theirs[i].detach().to(at::kDouble))
                              .abs()
                              .max()
                              .item<double>());
  return worst;
}

inline torch::optim::AdamWParamState& stateOf(torch::optim::Optimizer& optimizer,
                                              const at::Tensor& parameter) {
  return static_cast<torch::optim::AdamWParamState&>(
      *optimizer.state().at(parameter.unsafeGetTensorImpl()));
}

} // namespace kiln::test
