// A model's parameters as named tensors, and back from a file of them.
#pragma once

#include "models/common/Safetensors.h"

#include <torch/nn/module.h>

namespace kiln::models {

std::vector<NamedTensor> parametersOf(const torch::nn::Module& model);

/// A file's tensors under the parameters' names. Throws Error(corrupt) where one is missing or its
/// dtype or shape differs.
void readParameters(const Safetensors& from, torch::nn::Module& model);

} // namespace kiln::models
