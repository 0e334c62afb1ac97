// kiln::optim::AdamW: torch::optim::AdamW, whose step is at most two launches however many
// parameters there are, with the clip to a global norm, low-precision copies and averages in the
// same launches.
//
//   kiln::enable();
//   kiln::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-4),
//                                {.maxGradNorm = 1.0});
//   loss.backward();
//   optimizer.step();                        // nothing waits for the device
//   std::cout << optimizer.gradNorm();       // does
//
// Options, parameter groups and state are torch's own, and so are archives: torch::save and
// torch::load move checkpoints between the two. A step is one kernel, and two more before it with a
// clip, whatever groups, dtypes of gradients and copies there are. The first step with a set of
// parameters compiles what no store has and allocates; later ones do neither.
//
// Kiln's kernels take fp32 parameters with gradients of fp32, bf16 or fp16, wherever kiln::enable()
// is on for their device. Everything else, amsgrad included, is computed by torch's formulas with
// the same results; kiln::report() counts why, strict mode makes it an error. Sparse gradients are
// refused.
//
// Inside a CUDA graph: take a step before the capture. The number of steps and the learning rates
// lie in device memory. Replays count steps there; readSteps() brings them to the state, as save()
// does. After the learning rate was changed call updateRates(), then replay.
#pragma once

#include "kiln/kiln.h"

#include <torch/optim/adamw.h>

#include <memory>
#include <optional>

namespace kiln::optim {

struct AdamWExtras {
  /// Gradients are clipped to it as by clip_grad_norm_; 0: they are not. Infinity: they are not,
  /// and gradNorm() tells their norm.
  double maxGradNorm = 0;
  /// bf16 or fp16 copies of all parameters, made at once and rewritten by each step.
  std::optional<at::ScalarType> copies{};
  /// Keeps ema = emaDecay ema + (1 - emaDecay) parameter from the first step on; 0: none.
  double emaDecay = 0;
  /// What gradients are multiplied with, one fp32 number on the device: 1 / the scale of the loss.
  at::Tensor unscale{};
};

class KILN_API AdamW : public torch::optim::AdamW {
 public:
  explicit AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                 const torch::optim::AdamWOptions& defaults = {}, const AdamWExtras& extras = {});
  explicit AdamW(std::vector<at::Tensor> parameters,
                 const torch::optim::AdamWOptions& defaults = {}, const AdamWExtras& extras = {});
  ~AdamW() override;

  /// Gradients stay as they are; clipping and unscaling happens on the way. Throws Error(input) for
  /// sparse gradients, and inside a capture for what has not had its first step.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Of the parameters and of their copies; torch's own, called on its type, leaves those out.
  void zero_grad(bool set_to_none = true); // NOLINT(readability-identifier-naming): hides torch's

  /// The norm of all gradients of the last step before the clip, without dimensions, on their
  /// device; rewritten by the next step. Undefined without maxGradNorm or a step.
  at::Tensor gradNorm() const;

  /// Kernels that the last step launched; 0 if torch computed it. Without a clip, steps in a graph
  /// and those after it also copy the counts of steps, 4 bytes for each.
  std::size_t launches() const;

  /// `copy` (of the parameter's sizes and strides, bf16 or fp16) is rewritten by each step. Where
  /// the parameter has no gradient, as the fp32 master of a model in bf16, the copy's is used.
  void bindCopy(const at::Tensor& parameter, at::Tensor copy);
  /// Rewrites the copies without a step: after the parameters were loaded, say.
  void refreshCopies();
  at::Tensor copyOf(const at::Tensor& parameter) const; // undefined if there is none
  at::Tensor emaOf(const at::Tensor& parameter) const;  // the same

  /// Writes the groups' learning rates to the device: step() does, replays of it do not.
  void updateRates();
  /// Brings the number of steps from the device after replays. Waits for the current stream.
  void readSteps();

  /// Brings the number of steps from the state to the device, at the next step: after the state was
  /// set otherwise than by load(). Graphs that were captured before go on with their own numbers.
  void writeSteps();

  /// torch's archive; averages are in it too, which torch ignores.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace kiln::optim
