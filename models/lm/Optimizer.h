// How parameters are updated: AdamW over decayed matrices and undecayed gains, gradients clipped to
// a global norm before. The one place where the optimizer is chosen.
#pragma once

#include "models/lm/Config.h"
#include "models/lm/Safetensors.h"

#include <kiln/optim.h>
#include <torch/torch.h>

namespace kiln::lm {

class Updater {
 public:
  Updater(torch::nn::Module& model, const Options& options);

  /// Clips, updates and clears the gradients. The gradient's norm before clipping, a scalar on the
  /// device, until the next step: nothing waits for it.
  at::Tensor step(double learningRate);

  /// The optimizer's tensors under the parameters' names: optimizer.exp_avg.NAME, ...
  std::vector<NamedTensor> state() const;
  /// Throws Error(corrupt).
  void restore(const Safetensors& from);

 private:
  at::Tensor clipped();

  std::vector<NamedTensor> parameters;
  double limit;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  optim::AdamW* clipping = nullptr; // the optimizer, if it clips itself
};

} // namespace kiln::lm
