// A toy that ranks train with a ShardedOptimizer, for tests.
#pragma once

#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/dist/sharded_optimizer.h"
#include "kiln/optim.h"

namespace kiln::dist {

/// CS336's: AdamW with lr 0.1, decay 0.1.
inline torch::optim::AdamWOptions toyOptions() {
  return torch::optim::AdamWOptions(0.1).weight_decay(0.1).betas({0.9, 0.999}).eps(1e-8);
}

template <typename Model> std::shared_ptr<Model> toy() {
  torch::manual_seed(42);
  return std::make_shared<Model>();
}

inline std::vector<at::Tensor> clones(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& one : module.parameters())
    all.push_back(one.detach().clone());
  return all;
}

/// A run of some steps on rows that are split among the ranks of a group.
struct ShardedRun {
  explicit ShardedRun(std::shared_ptr<Group> ranks, double clip = 0.5)
      : group(std::move(ranks)), model(toy<TiedToyModel>()),
        parallel(*model, group, {.bucketBytes = 1500, .firstBucketBytes = 100, .sharded = true}),
        optimizer(parallel, trainable(*model), toyOptions(), {.maxGradNorm = clip}) {}

  /// Whole numbers, whose sums do not depend on the number of ranks, as far as they can be.
  void step(int index) {
    torch::manual_seed(100 + index);
    const at::Tensor x = torch::randn({8, 10});
    model->forward(x).square().sum().backward(); // the same on all ranks: the mean is exact
    optimizer.step();
  }

  std::shared_ptr<Group> group;
  std::shared_ptr<TiedToyModel> model;
  DataParallel parallel;
  ShardedOptimizer optimizer;
};

} // namespace kiln::dist
