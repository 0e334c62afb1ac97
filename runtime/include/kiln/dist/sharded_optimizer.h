// kiln::dist::ShardedOptimizer: AdamW whose state, and work, is divided among ranks (ZeRO stage 1).
// A rank gets the mean of its part of the gradients by reduce-scatter, updates that part of the
// parameters, and all-gather gives all ranks all parameters: as many bytes as an all-reduce. What
// is updated first is gathered while the rest is updated.
//
//   kiln::dist::DataParallel parallel(*model, group, {.sharded = true});
//   kiln::dist::ShardedOptimizer optimizer(parallel, model->parameters(),
//                                          torch::optim::AdamWOptions(3e-4), {.maxGradNorm = 1.0});
//   loss.backward();     // all but the last backward of a step in parallel.noSync()
//   optimizer.step();    // on all ranks
//
// With Gather::whenNeeded step() sends nothing. The next forward asks for the parameters of each
// part of the model before it reads them, and those of later parts travel meanwhile:
//
//   for (auto& layer : *model->layers) {
//     optimizer.need(*layer);
//     x = layer->forward(x);
//   }
//
// The update is kiln::optim::AdamW's, with the same arithmetic element by element as without
// sharding; groups, learning rates that change and unused parameters are as there. Parts are cut
// where they fall, within a parameter too. Parameters of bf16 and fp16 have fp32 masters in their
// rank's part. From the first step on parameters lie in flat buffers, bucket by bucket; take no
// pointers to them before.
//
// Method: Rajbhandari et al. 2020, "ZeRO", stage 1.
#pragma once

#include "kiln/dist/data_parallel.h"

#include <torch/optim/adamw.h>

namespace kiln::dist {

/// When the parameters that other ranks have updated are gathered.
enum class Gather { inStep, whenNeeded };

struct ShardedOptions {
  double maxGradNorm = 0; // of the mean gradient of all parameters; 0: any
  Gather gather = Gather::inStep;
};

class KILN_API ShardedOptimizer : public torch::optim::Optimizer {
 public:
  /// `parallel`, whose option `sharded` is set, must outlive it. Throws Error(input).
  ShardedOptimizer(DataParallel& parallel,
                   const std::vector<torch::optim::OptimizerParamGroup>& groups,
                   const torch::optim::AdamWOptions& defaults = {},
                   const ShardedOptions& options = {});
  ShardedOptimizer(DataParallel& parallel, std::vector<at::Tensor> parameters,
                   const torch::optim::AdamWOptions& defaults = {},
                   const ShardedOptions& options = {});
  ~ShardedOptimizer() override;

  /// Throws Error(input) for parameters that `parallel` does not send and for groups that were
  /// added after the first step.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Forgets gradients; step() has done so.
  void zero_grad(bool set_to_none = true); // NOLINT(readability-identifier-naming): hides torch's

  /// With Gather::whenNeeded: behind this the module's parameters are what all ranks have updated.
  /// On all ranks, before whatever reads them: a forward, an evaluation, a checkpoint. The first
  /// call behind a step begins to gather all parameters, those of the backward's last gradients
  /// first. A backward throws Error(input) for a parameter that nobody asked for since the last
  /// step.
  void need(const torch::nn::Module& module);

  /// Steps inside a CUDA graph are as kiln::optim::AdamW's: this is true if Kiln's kernels computed
  /// the last one.
  bool canBeCaptured() const;
  /// Before a step is captured and before each replay of it: writes the groups' learning rates to
  /// the device, and forgets what has been gathered, since a replay gathers for itself.
  void prepareReplay();

  /// Of the last step, before the clip, without dimensions, on the device; undefined before.
  at::Tensor gradNorm() const;
  /// Bytes of state and masters on this rank.
  std::size_t stateBytes() const;

  /// exp_avg.NAME, exp_avg_sq.NAME and step.NAME of all that was updated, and master.NAME. `whole`:
  /// in the parameters' shapes, on rank 0 and in host memory; other ranks get nothing. All ranks
  /// must ask. Otherwise this rank's parts, flat, under NAME@FIRST, where FIRST is the part's first
  /// element.
  std::vector<NamedParameter> state(bool whole = true);
  /// From states of any number of ranks, whole or all their parts together; once the parameters
  /// have been loaded. Other names are passed over, and master.NAME may stand alone: where the
  /// numbers come from that a parameter was rounded from. Throws Error(input) for sizes that do not
  /// fit, and, in the step that uses them and on all ranks, for elements that are in no part.
  void restore(const std::vector<NamedParameter>& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln::dist
