// kiln::dist::FullyShard: parameters, gradients and the optimizer's state divided among ranks,
// block by block (ZeRO stage 3). A block's parameters are gathered before its forward and before
// its backward, some blocks ahead, and freed behind each; its gradients are reduce-scattered as
// they come.
//
//   std::vector<std::shared_ptr<torch::nn::Module>> blocks = ...;        // of a model on its
//   device kiln::dist::FullyShard shard(*model, blocks, group, {.compute = at::kBFloat16});
//   torch::optim::AdamW optimizer(shard.parameters());
//   // in the model's forward:
//   for (std::size_t i = 0; i < blocks.size(); ++i)
//     x = shard.run(i, [&](const at::Tensor& x) { return blocks[i]->forward(x); }, x);
//   loss.backward();
//   shard.clip(1.0);
//   optimizer.step();
//
// A rank's part is fp32 and is what the optimizer sees and updates; the module's own parameters
// have the dtype `compute` and hold numbers only within run() and the backward of what it returned.
// Parameters of no block stay whole on all ranks, and their gradients are DataParallel's. Gradients
// are the mean over ranks, summed in fp32; backwards one after the other add up. All ranks run the
// same blocks in the same order; a block once a forward. A parameter of a block that gets no
// gradient counts as zeros.
//
// Method: Rajbhandari et al. 2020, "ZeRO", stage 3; Zhao et al. 2023, "PyTorch FSDP".
#pragma once

#include "kiln/dist/data_parallel.h"

#include <functional>

namespace kiln::dist {

struct FullyShardOptions {
  std::optional<at::ScalarType> compute{}; // of the blocks' parameters; else their own
  int prefetch = 2;                        // blocks that are gathered ahead
};

class KILN_API FullyShard {
 public:
  /// All parameters become rank 0's. Throws Error(input) where ranks differ, for blocks that share
  /// a parameter, and for parameters that are not fp32.
  FullyShard(torch::nn::Module& model,
             const std::vector<std::shared_ptr<torch::nn::Module>>& blocks,
             std::shared_ptr<Group> group, const FullyShardOptions& options = {});
  ~FullyShard(); // the module's blocks are left without numbers
  FullyShard(const FullyShard&) = delete;
  FullyShard& operator=(const FullyShard&) = delete;

  using Forward = std::function<at::Tensor(const at::Tensor&)>;
  /// forward(x) while the block's parameters are there.
  at::Tensor run(std::size_t block, const Forward& forward, const at::Tensor& x);

  /// What an optimizer updates: this rank's parts, flat, and what stays whole.
  std::vector<at::Tensor> parameters() const;
  /// The same with names, NAME@FIRST for parts; FIRST is the part's first element.
  std::vector<NamedParameter> named() const;
  /// Gradients' global norm, and, above `most`, gradients scaled to it; 0 scales nothing. One small
  /// all-reduce; nothing waits for the device.
  at::Tensor clip(double most);

  /// All parameters in fp32 under their names, whole, on all ranks. All ranks must ask.
  std::vector<NamedParameter> whole();
  /// Takes them back. Throws Error(input) where one is missing or has another shape.
  void load(const std::vector<NamedParameter>& whole);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl;
};

} // namespace kiln::dist
