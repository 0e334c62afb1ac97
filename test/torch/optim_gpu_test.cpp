// kiln::optim::AdamW and kiln::profile on a GPU: steps beside torch's in fp64, launches counted by
// the profiler, nothing allocated and nothing waited for, captured and replayed. Skips without a
// GPU.
#include "test/torch/OptimHelpers.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/profile.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;

namespace {

class OptimGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA())
      GTEST_SKIP() << "this LibTorch sees no GPU";
    Options options;
    options.strict = true;
    enable(options);
  }
  void TearDown() override { disable(); }
};

Tensors parameters() {
  at::manual_seed(3);
  Tensors all;
  for (const std::vector<std::int64_t>& shape : std::initializer_list<std::vector<std::int64_t>>{
           {1000, 257}, {0}, {1}, {4096}, {33}, {512, 512}})
    all.push_back(at::randn(shape, onGpu()).requires_grad_());
  return all;
}
constexpr double kFp32 = 1e-5; // twenty roundings of parameters of up to 5

std::vector<OptimizerParamGroup> groupsOf(const Tensors& all) {
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Tensors(all.begin(), all.begin() + 3),
                      std::make_unique<AdamWOptions>(AdamWOptions(1e-2).weight_decay(0.1)));
  groups.emplace_back(Tensors(all.begin() + 3, all.end()),
                      std::make_unique<AdamWOptions>(AdamWOptions(3e-3).weight_decay(0)));
  return groups;
}

TEST_F(OptimGpu, TwentyClippedStepsAreTorchsInFp64) {
  Tensors ours = parameters(), theirs = clones(ours, at::kDouble);
  optim::AdamW mine(groupsOf(ours), {},
                    {.maxGradNorm = 20, .copies = at::kBFloat16, .emaDecay = 0.9});
  torch::optim::AdamW reference(groupsOf(theirs));
  for (int step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const bool missing = i == 4 && step % 5 == 2;
      ours[i].mutable_grad() = missing ? Tensor() : at::randn_like(ours[i]).detach();
      theirs[i].mutable_grad() = missing ? Tensor() : ours[i].grad().to(at::kDouble);
    }
    mine.step();
    const double norm = torch::nn::utils::clip_grad_norm_(theirs, 20);
    reference.step();
    EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm);
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  EXPECT_TRUE(at::equal(mine.copyOf(ours[0]), ours[0].detach().to(at::kBFloat16)));
  EXPECT_EQ(stateOf(mine, ours[4]).step(), 16);
}

/// Two groups, and a parameter whose gradient is that of its copy: three kinds.
void launchesWithoutWaitOrAllocation(double maxNorm, int launches) {
  Tensors ours = parameters();
  optim::AdamW mine(groupsOf(ours), {},
                    {.maxGradNorm = maxNorm, .copies = at::kBFloat16, .emaDecay = 0.99});
  for (Tensor& one : ours)
    one.mutable_grad() = at::randn_like(one).detach();
  Tensor copy = mine.copyOf(ours[5]);
  copy.mutable_grad() = ours[5].grad().to(at::kBFloat16);
  ours[5].mutable_grad().reset();
  mine.step();
  mine.step();
  const auto allocations = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocation[0].allocated;
  };
  const auto before = allocations();
  auto profiler = profile::makeProfiler();
  profiler.start();
  for (int step = 0; step < 4; ++step)
    mine.step();
  const auto after = allocations();
  profiler.stop();
  EXPECT_EQ(after, before) << "the same gradients: nothing is allocated";
  std::int64_t launched = 0;
  for (const profile::Row& row : profiler.kernels())
    launched += row.calls;
  std::ostringstream tables;
  profiler.printTopTables(tables);
  EXPECT_EQ(launched, 4 * launches) << tables.str();
  for (const profile::Row& row : profiler.ops()) {
    EXPECT_NE(row.name, "cudaStreamSynchronize");
    EXPECT_NE(row.name, "cudaEventSynchronize");
  }
  const auto rows = profiler.ops();
  const auto step = std::ranges::find(rows, "Optimizer.step#AdamW.step", &profile::Row::name);
  ASSERT_TRUE(step != rows.end()) << tables.str();
  EXPECT_EQ(step->calls, 4);
  EXPECT_GT(step->deviceMicros, 0) << tables.str();
  EXPECT_NE(tables.str().find("kernels by their time"), std::string::npos) << tables.str();
}

TEST_F(OptimGpu, TwoLaunchesWithAClipNoWaitNoAllocation) {
  launchesWithoutWaitOrAllocation(1, 2);
}
TEST_F(OptimGpu, OneLaunchWithoutAClipNoWaitNoAllocation) {
  launchesWithoutWaitOrAllocation(0, 1);
}

void isCapturedAndReplayed(double maxNorm) {
  Tensors ours = parameters(), theirs = clones(ours);
  optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = maxNorm});
  torch::optim::AdamW reference(groupsOf(theirs));
  Tensors grads;
  for (Tensor& one : ours)
    grads.push_back(one.mutable_grad() = at::randn_like(one).detach());
  const auto byTorch = [&] {
    for (std::size_t i = 0; i < theirs.size(); ++i)
      theirs[i].mutable_grad() = grads[i].clone();
    if (maxNorm > 0)
      torch::nn::utils::clip_grad_norm_(theirs, maxNorm);
    reference.step();
  };
  const auto setRates = [&](double rate) {
    for (torch::optim::Optimizer* one : {static_cast<torch::optim::Optimizer*>(&mine),
                                         static_cast<torch::optim::Optimizer*>(&reference)})
      for (auto& group : one->param_groups())
        group.options().set_lr(rate);
    mine.updateRates();
  };
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  mine.step();
  byTorch();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  mine.step();
  graph.capture_end();
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 1) << "capturing does no step";
  for (int step = 0; step < 6; ++step) {
    for (const Tensor& grad : grads)
      grad.normal_();
    if (step == 3)
      setRates(5e-3);
    if (step == 4) // an eager one between replays, with its gradients elsewhere
      for (std::size_t i = 0; i < ours.size(); ++i)
        ours[i].mutable_grad() = grads[i].clone();
    if (step == 4)
      mine.step();
    else
      graph.replay();
    byTorch();
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  mine.readSteps();
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 7);
  graph.replay();
  byTorch();
  EXPECT_LE(worst(ours, theirs), kFp32);
}

TEST_F(OptimGpu, AClippedStepIsCapturedAndReplayed) {
  isCapturedAndReplayed(30);
}
TEST_F(OptimGpu, AStepWithoutAClipIsCapturedAndReplayed) {
  isCapturedAndReplayed(0);
}

/// One number a graph's gradients, so that each step tells which graph made it.
TEST_F(OptimGpu, GraphsWithGradientsElsewhereTakeTurns) {
  Tensors ours = parameters(), theirs = clones(ours);
  optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = 30});
  torch::optim::AdamW reference(groupsOf(theirs));
  const auto give = [](Tensors& to, double value) {
    for (Tensor& one : to)
      one.mutable_grad() = at::full_like(one, value).detach();
  };
  const auto byTorch = [&](double value) {
    give(theirs, value);
    torch::nn::utils::clip_grad_norm_(theirs, 30);
    reference.step();
  };
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  constexpr double values[] = {0.5, -0.25};
  give(ours, values[0]);
  mine.step();
  byTorch(values[0]);
  at::cuda::CUDAGraph graphs[2];
  Tensors held;
  for (int i : {0, 1}) {
    give(ours, values[i]);
    for (const Tensor& one : ours)
      held.push_back(one.grad());
    graphs[i].capture_begin();
    mine.step();
    graphs[i].capture_end();
  }
  for (int i : {0, 1, 1, 0, 1, 0}) {
    graphs[i].replay();
    byTorch(values[i]);
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  mine.readSteps();
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 7);
}

/// Steps that replays counted are not those of a state that was loaded.
TEST_F(OptimGpu, ALoadedStateCountsFromItsOwnSteps) {
  Tensors ours = parameters(), theirs = clones(ours);
  optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = 30});
  torch::optim::AdamW reference(groupsOf(theirs));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ours[i].mutable_grad() = at::randn_like(ours[i]).detach();
    theirs[i].mutable_grad() = ours[i].grad().clone();
  }
  torch::nn::utils::clip_grad_norm_(theirs, 30);
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  mine.step();
  std::stringstream archive;
  torch::save(mine, archive);
  const Tensors before = clones(ours);
  reference.step();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  mine.step();
  graph.capture_end();
  for (int i = 0; i < 3; ++i)
    graph.replay();
  {
    const at::NoGradGuard constant;
    for (std::size_t i = 0; i < ours.size(); ++i)
      ours[i].copy_(before[i]);
  }
  torch::load(mine, archive);
  for (int i = 0; i < 2; ++i) {
    mine.step();
    reference.step();
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 3);
}

TEST_F(OptimGpu, AFirstStepInsideACaptureIsRefused) {
  Tensors ours = {at::randn({100}, onGpu()).requires_grad_()};
  ours[0].mutable_grad() = at::ones({100}, onGpu());
  optim::AdamW mine(ours);
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  EXPECT_THROW(mine.step(), Error);
  graph.capture_end();
  EXPECT_EQ(mine.state().size(), 0U);
}

TEST_F(OptimGpu, ProfilesShowKernelsUnderTheirRanges) {
  const Tensor x = at::randn({2048, 2048}, onGpu());
  at::mm(x, x);
  auto profiler = profile::makeProfiler({.memory = true});
  profiler.start();
  {
    const auto range = profile::marked("product");
    at::mm(x, x);
  }
  at::mm(x, x);
  profiler.stop();
  const auto ops = profiler.ops();
  const auto range = std::ranges::find(ops, "product", &profile::Row::name);
  const auto product = std::ranges::find(ops, "aten::mm", &profile::Row::name);
  ASSERT_TRUE(range != ops.end() && product != ops.end());
  EXPECT_GT(range->deviceMicros, 0);
  EXPECT_GT(product->deviceMicros, range->deviceMicros);
  EXPECT_EQ(range->selfDeviceMicros, 0);
  profile::recordMemoryHistory();
  const Tensor held = at::zeros({1 << 20}, onGpu());
  const auto file = std::filesystem::path(testing::TempDir()) / "kiln_memory.pickle";
  profile::exportMemorySnapshot(file);
  profile::recordMemoryHistory(0);
  std::ifstream snapshot(file, std::ios::binary);
  EXPECT_EQ(snapshot.get(), 0x80) << "a pickle";
  const auto memory = profiler.memory();
  const auto peak = std::ranges::find(memory.peaks, "cuda:0", &profile::MemoryEvent::device);
  ASSERT_NE(peak, memory.peaks.end());
  EXPECT_GE(peak->held, 2048 * 2048 * 4);
  EXPECT_NE(peak->stack.find("aten::mm"), std::string::npos) << peak->stack;
}

} // namespace
