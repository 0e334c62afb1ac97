// Two blocks of a cluster that hand each other values round by round, through one place in shared
// memory, which is full once all have arrived and free once they are read.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <vector>

namespace kiln::test {

inline constexpr int handOverRounds = 5, handOverThreads = 64;

inline constexpr const char* handOverText = R"(#include "tensor_copy.cuh"
using namespace kiln;

KILN_KERNEL(64, 1) hand_over(const float* x, float* y) {
  constexpr int rounds = 5, threads = 64, bytes = threads * 16;
  char* handed = swizzled_memory();
  u64* full = reinterpret_cast<u64*>(handed + bytes);
  u64* free = full + 1;
  const int thread = thread_index(), other = cluster_rank() ^ 1;
  if (thread == 0) {
    mbarrier_initialize(full, 1);
    mbarrier_initialize(free, threads / 32);
    mbarrier_arrive_expecting(full, bytes);
    mbarrier_fence();
  }
  warp_barrier();
  cluster_arrive();
  cluster_wait();  // ready
  for (int round = 0; round < rounds; ++round) {
    const int first = ((round * 2 + cluster_rank()) * threads + thread) * 4;
    const float values[4] = {load_global<float>(x + first), load_global<float>(x + first + 1),
                             load_global<float>(x + first + 2), load_global<float>(x + first + 3)};
    mbarrier_wait_for_cluster(free, round % 2 ^ 1);
    store_to_block(handed + thread * 16, values, full, other);
    mbarrier_wait_for_cluster(full, round % 2);
    float mine[4];
    for (int i = 0; i < 4; ++i)
      mine[i] = load_shared<float>(handed + thread * 16 + 4 * i);
    if (thread == 0)
      mbarrier_arrive_expecting(full, bytes);
    warp_barrier();  // read
    if (thread % 32 == 0)
      mbarrier_arrive_in_block(free, other);
    for (int i = 0; i < 4; ++i)
      store_global(y + first + i, mine[i]);
  }
  warp_barrier();
  cluster_arrive();
  cluster_wait();  // done
}
)";

/// x and y: (rounds, blocks, threads, 4).
inline LaunchPlan handOverPlan() {
  using Kind = KernelArgument::Kind;
  const std::vector<Extent> shape{{handOverRounds, -1}, {2, -1}, {handOverThreads, -1}, {4, -1}};
  LaunchPlan plan;
  plan.function = "hand_over";
  plan.inputs = {{"x", DType::f32, shape, {}, 16}};
  plan.outputs = {{"y", DType::f32, shape, {}, 16}};
  KernelLaunch kernel;
  kernel.name = "hand_over";
  kernel.threads = handOverThreads;
  kernel.sharedBytes = handOverThreads * 16 + 16;
  kernel.cluster = 2;
  kernel.grid = KernelLaunch::Grid::tiles;
  kernel.tiles = {{{{{{2, -1}}}, 1}}};
  kernel.arguments = {{Kind::buffer, "x", 0, {}, 0}, {Kind::buffer, "y", 0, {}, 0}};
  plan.kernels = {kernel};
  return plan;
}

inline std::vector<std::int64_t> handOverSizes() {
  return {handOverRounds, 2, handOverThreads, 4};
}
inline std::vector<float> handOverInput() {
  std::vector<float> x(handOverRounds * 2 * handOverThreads * 4);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i) * 0.5f;
  return x;
}
/// What each block is handed: the other's values of the round.
inline std::vector<float> handedOver(const std::vector<float>& x) {
  constexpr std::size_t half = handOverThreads * 4;
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i / half % 2 == 0 ? i + half : i - half];
  return y;
}

} // namespace kiln::test
