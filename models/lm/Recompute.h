// Activation checkpointing: what a function computes on the way is not kept for its backward but
// computed again there, with the same random numbers and under the same autocast.
#pragma once

#include <torch/torch.h>

#include <functional>

namespace kiln::lm {

using Step = std::function<at::Tensor(const at::Tensor&)>;

/// step(x), of which only x is kept. `parameters` are the tensors besides x whose gradients are
/// wanted; everything that `step` holds must live until the backward is done. No second
/// derivatives.
at::Tensor recomputed(const Step& step, const at::Tensor& x,
                      const std::vector<at::Tensor>& parameters);

} // namespace kiln::lm
