// How weights are drawn when a model is made, and what is drawn without leaving a trace.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace kiln::models {

/// In place, from the normal distribution of this deviation, cut at `cut` deviations.
void drawNormal(at::Tensor weight, double deviation, double cut = 3);

/// A device's random numbers go on behind a scope as if nothing had been drawn in it.
class KeptRandom {
 public:
  explicit KeptRandom(at::Device device);
  ~KeptRandom();
  KeptRandom(const KeptRandom&) = delete;
  KeptRandom& operator=(const KeptRandom&) = delete;

 private:
  at::Generator generator;
  at::Tensor before;
};

} // namespace kiln::models
