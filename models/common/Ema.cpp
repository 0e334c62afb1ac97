// See Ema.h.
#include "models/common/Ema.h"

#include "models/common/Fail.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::models {

Ema::Ema(const torch::nn::Module& model, double decay) : decay(decay) {
  if (!(decay >= 0 && decay < 1))
    fail(ErrorKind::input, "a moving average with decay {}: must be at least 0 and less than 1",
         decay);
  for (const auto& parameter : model.named_parameters()) {
    names.push_back("ema." + parameter.key());
    parameters.push_back(parameter.value());
    averages.push_back(parameter.value().detach().clone());
  }
}

void Ema::update() {
  const at::NoGradGuard constant;
  at::_foreach_lerp_(averages, parameters, 1 - decay);
}

void Ema::exchange() {
  const at::NoGradGuard constant;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor kept = parameters[i].clone();
    parameters[i].copy_(averages[i]);
    averages[i].copy_(kept);
  }
}

std::vector<NamedTensor> Ema::state() const {
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all.push_back({names[i], averages[i]});
  return all;
}

void Ema::restore(const Safetensors& from) {
  for (std::size_t i = 0; i < names.size(); ++i)
    from.read(names[i], averages[i]);
}

} // namespace kiln::models
