// How parameters are updated: AdamW over decayed matrices and undecayed gains, gradients clipped to
// a global norm before. The one place where the optimizer is chosen: LibTorch's, Kiln's, or Kiln's
// divided among ranks. Kiln's also writes copies of weights in bf16 that products read, so that no
// step casts them.
#pragma once

#include "models/common/Parameters.h"

#include <kiln/dist/sharded_optimizer.h>
#include <kiln/optim.h>
#include <torch/optim/optimizer.h>

namespace kiln::models {

struct UpdateOptions {
  double learningRate = 1e-3, weightDecay = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double clip = 0;   // largest global norm of the gradient; 0: any
  bool kiln = false; // Kiln's optimizer, else LibTorch's
};

class Updater {
 public:
  Updater(torch::nn::Module& model, const UpdateOptions& options);
  /// By a kiln::dist::ShardedOptimizer over `parallel`, which gathers what need() asks for.
  /// `masters`: the fp32 numbers that parameters of bf16 begin with, under their names.
  Updater(torch::nn::Module& model, const UpdateOptions& options, dist::DataParallel& parallel,
          const std::vector<NamedTensor>& masters);

  /// Before a part of the model is read: its parameters become what all ranks have updated.
  void need(const torch::nn::Module& part);

  /// `copy`, a leaf of another dtype, is rewritten by each step, and its gradient is the weight's.
  /// Kiln's optimizer only.
  void bindCopy(const at::Tensor& weight, const at::Tensor& copy);

  /// Behind each backward but the only one of a step: adds the gradients of copies to those of the
  /// weights, in fp32.
  void collect();
  void clear(); // the gradients

  /// Clips, updates and clears the gradients. The gradient's norm before clipping, a scalar on the
  /// device, until the next step: nothing waits for it.
  at::Tensor step(double learningRate);

  /// Whether the last step was one that can be captured into a graph.
  bool canBeCaptured() const;
  /// Before a step is captured into a graph, and before each replay of one: writes the rate to the
  /// device. Throws Error(unavailable) if the last step was not one that can be captured.
  void setRate(double learningRate);
  /// Behind a replay; the device has counted it.
  void replayed() { wasReplayed = true; }

  /// The parameters, those that have masters by these, and the optimizer's tensors under their
  /// names: optimizer.exp_avg.NAME, ... All ranks must ask for a divided state, which rank 0 gets.
  std::vector<NamedTensor> state();
  /// Whoever wrote it, in however many ranks. Throws Error(corrupt).
  void restore(const Safetensors& from);

 private:
  std::vector<NamedTensor> dividedState();
  void restoreDivided(const Safetensors& from);
  at::Tensor copyOf(const at::Tensor& parameter) const;
  at::Tensor clipped();

  torch::nn::Module& model;
  std::vector<NamedTensor> parameters;
  double limit;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  optim::AdamW* byKiln = nullptr;            // the optimizer, if it is Kiln's,
  dist::ShardedOptimizer* divided = nullptr; // or this one
  bool wasReplayed = false;                  // then the device knows the number of steps
};

} // namespace kiln::models
