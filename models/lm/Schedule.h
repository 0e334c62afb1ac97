// The learning rate of a step: linear warm-up, then half a cosine. Loshchilov, Hutter 2016.
#pragma once

#include "models/lm/Config.h"

namespace kiln::lm {

/// Of step 0 to options.steps - 1; behind that the smallest.
double learningRate(const Options& options, std::int64_t step);

} // namespace kiln::lm
