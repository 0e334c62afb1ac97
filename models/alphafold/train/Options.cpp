// See Options.h.
#include "models/alphafold/train/Options.h"

#include "models/common/Fail.h"

#include <algorithm>
#include <cmath>

namespace kiln::alphafold {

using models::fail;

void TrainOptions::check() const {
  const auto atLeast = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least)
      fail(ErrorKind::input, "--{}={}: at least {} is needed", name, value, least);
  };
  atLeast("steps", steps, 1);
  atLeast("warmup", warmup, 0);
  atLeast("decay-after", decayAfter, 1);
  atLeast("checkpoint-every", checkpointEvery, 0);
  atLeast("keep", keep, 1);
  const auto inside = [](const char* name, double value, double from, double to) {
    if (!(value >= from && value <= to))
      fail(ErrorKind::input, "--{}={}: must lie in {} to {}", name, value, from, to);
  };
  inside("learning-rate", learningRate, 0, 1e3);
  inside("decay", decay, 0, 1);
  inside("beta1", beta1, 0, 0.999999);
  inside("beta2", beta2, 0, 0.999999);
  inside("eps", eps, 0, 1);
  inside("clip", clip, 0, 1e30);
  inside("ema", ema, 0, 0.9999999);
  if (precision != "fp32" && precision != "tf32" && precision != "bf16")
    fail(ErrorKind::input, "--precision={}: allowed are fp32, tf32, bf16", precision);
  model.check();
}

double learningRate(const TrainOptions& options, std::int64_t step) {
  const double rise =
      std::min(1.0, double(step + 1) / double(std::max<std::int64_t>(options.warmup, 1)));
  const std::int64_t falls = step / options.decayAfter;
  return options.learningRate * rise * std::pow(options.decay, double(falls));
}

} // namespace kiln::alphafold
