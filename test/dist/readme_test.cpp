// What runtime/README.md shows of several processes; test/docs holds the two together.
#include "test/dist/Ranks.h"

#include <torch/torch.h>

#include <kiln/dist/data_parallel.h>

namespace {

at::Tensor batchOf(int rank, int step) {
  return at::full({4, 8}, 0.1 * (rank + step));
}

int train(int argc, char** argv, int ranks) {
  const auto place = kiln::dist::Place::fromEnvironment(); // torchrun's, Slurm's, Open MPI's
  if (place.launcher.empty() && ranks > 1)
    return kiln::dist::launch(argc, argv, {.ranks = ranks}); // this program, so many times
  const auto group = kiln::dist::Group::start(place, {.device = at::kCPU});
  torch::nn::Linear model(8, 1);
  kiln::dist::DataParallel parallel(*model, group);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    group->setStep(step); // errors name it
    optimizer.zero_grad();
    model->forward(batchOf(group->rank(), step)).square().mean().backward();
    optimizer.step(); // gradients are the mean over ranks
  }
  return 0;
}

} // namespace

// A second group of the same ranks, beside that of the other tests, would need a port of its own.
TEST(Readme, TrainsInSeveralProcesses) {
  if (kiln::dist::Place::fromEnvironment().size > 1)
    GTEST_SKIP() << "in one process; the other tests are what it does in several";
  EXPECT_EQ(train(0, nullptr, 1), 0);
}
