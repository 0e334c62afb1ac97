// How parameters are updated: AdamW over decayed matrices and undecayed gains, gradients clipped to
// a global norm before. The one place where the optimizer is chosen. Beside Kiln's modules it also
// writes the bf16 weights that products read, so that no step casts them.
#pragma once

#include "models/common/Safetensors.h"
#include "models/lm/Config.h"

#include <kiln/optim.h>
#include <torch/torch.h>

namespace kiln::lm {

class Updater {
 public:
  Updater(torch::nn::Module& model, const Options& options);

  /// Behind each backward but the only one of a step: adds the gradients of copies to those of the
  /// weights, in fp32.
  void collect();
  void clear(); // the gradients

  /// Clips, updates and clears the gradients. The gradient's norm before clipping, a scalar on the
  /// device, until the next step: nothing waits for it.
  at::Tensor step(double learningRate);

  /// Before a step is captured into a graph, and before each replay of one: writes the rate to the
  /// device. Throws Error(unavailable) if the last step was not one that can be captured.
  void setRate(double learningRate);
  /// Behind a replay; the device has counted it.
  void replayed() { wasReplayed = true; }

  /// The optimizer's tensors under the parameters' names: optimizer.exp_avg.NAME, ...
  std::vector<NamedTensor> state() const;
  /// After the parameters were. Throws Error(corrupt).
  void restore(const Safetensors& from);

 private:
  void addCopies(const torch::nn::Module& model);
  at::Tensor copyOf(const at::Tensor& parameter) const;
  at::Tensor clipped();

  std::vector<NamedTensor> parameters;
  double limit;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  optim::AdamW* byKiln = nullptr; // the optimizer, if it is Kiln's
  bool wasReplayed = false;       // then the device knows the number of steps
};

} // namespace kiln::lm
