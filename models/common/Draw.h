// How weights are drawn when a model is made.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::models {

/// In place, from the normal distribution of this deviation, cut at `cut` deviations.
void drawNormal(at::Tensor weight, double deviation, double cut = 3);

} // namespace kiln::models
