// Activation checkpointing: what a function computes on the way is not kept for its backward but
// computed again there, with the same random numbers and under the same autocast.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace kiln::models {

using Tensors = std::vector<at::Tensor>;
using Step = std::function<Tensors(const Tensors&)>;

/// Whether a step draws random numbers. One that draws nothing may be captured into a graph.
enum class Draws { numbers, nothing };

/// step(inputs), of which only the inputs are kept. `parameters` are the tensors besides them whose
/// gradients are wanted; everything that `step` holds must live until the backward is done. No
/// second derivatives.
Tensors recomputed(const Step& step, const Tensors& inputs, const Tensors& parameters,
                   Draws draws = Draws::numbers);

} // namespace kiln::models
