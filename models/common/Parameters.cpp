// See Parameters.h.
#include "models/common/Parameters.h"

#include <ATen/core/grad_mode.h>

namespace kiln::models {

std::vector<NamedTensor> parametersOf(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : model.named_parameters())
    tensors.push_back({parameter.key(), parameter.value()});
  return tensors;
}

void readParameters(const Safetensors& from, torch::nn::Module& model) {
  const at::NoGradGuard constant;
  for (auto& parameter : model.named_parameters())
    from.read(parameter.key(), parameter.value());
}

} // namespace kiln::models
