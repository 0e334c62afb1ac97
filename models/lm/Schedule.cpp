// See Schedule.h.
#include "models/lm/Schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kiln::lm {

double learningRate(const Options& options, std::int64_t step) {
  if (step < options.warmup)
    return options.learningRate * double(step + 1) / double(options.warmup);
  const double length = double(std::max<std::int64_t>(options.steps - 1 - options.warmup, 1));
  const double done = std::min(double(step - options.warmup) / length, 1.0);
  return options.minLearningRate + (options.learningRate - options.minLearningRate) *
                                       (1 + std::cos(std::numbers::pi * done)) / 2;
}

} // namespace kiln::lm
