// What the lanes of a warp do together: each brings its words, and goes on when all have come.
#include "codegen/backend/Fail.h"
#include "codegen/host/BlockRunner.h"

#include <bit>

namespace kiln {

void BlockRunner::offerCollectives() {
  table.shuffleXor = [](void* context, float value, int mask) {
    return static_cast<BlockRunner*>(context)->shuffleXor(value, mask);
  };
  table.uniform = [](void* context, int value) {
    return static_cast<BlockRunner*>(context)->uniform(value);
  };
  table.lanesWith = [](void* context, unsigned value) -> unsigned {
    return static_cast<BlockRunner*>(context)->lanesWith(value);
  };
  table.exchange = [](void* context, HostCollective what, const unsigned* mine, int words) {
    return static_cast<BlockRunner*>(context)->exchange(what, mine, words);
  };
}

/// As kernels call it.
const char* BlockRunner::nameOf(HostCollective what) {
  switch (what) {
  case shuffleLanes:
    return "shuffle_xor";
  case takeFirstLane:
    return "uniform";
  case matchLanes:
    return "lanes_with";
  case voteLanes:
    return "a vote";
  case multiplyFragments:
    return "mma";
  case multiplyTf32:
    return "mma_tf32";
  case loadMatrices:
    return "load_matrices";
  case loadMatrices2:
    return "load_matrices2";
  case storeMatrices:
    return "store_matrices";
  }
  return "";
}

/// What every lane of the warp brings, once all have come.
[[gnu::always_inline]] inline const std::uint32_t*
BlockRunner::exchange(HostCollective what, const std::uint32_t* mine, int words) {
  int index = running / laneCount;
  Warp& warp = warps[index];
  if (warp.shuffling > 0 && warp.collective != what)
    failHere(fmt::format("takes part in {} where other lanes of its warp take part in {}",
                         nameOf(what), nameOf(warp.collective)));
  warp.collective = what;
  // Two halves by turns: a lane may fill the next one while others still read this one.
  std::uint32_t* values = warp.values[warp.turn].data();
  for (int word = 0; word < words; ++word)
    values[running % laneCount * words + word] = mine[word];
  bool last = ++warp.shuffling == laneCount;
  if (last) {
    warp.shuffling = 0;
    warp.turn ^= 1;
    for (int thread = index * laneCount; thread < (index + 1) * laneCount; ++thread)
      threads[thread].state = State::ready;
    shared.synchronize(std::uint64_t(1) << index);
  }
  // The last one waits for its turn too: threads run in order, and messages name the first.
  suspend(last ? State::ready : State::shuffling);
  return values;
}

float BlockRunner::shuffleXor(float value, int mask) {
  if (mask < 0 || mask >= laneCount)
    failHere(fmt::format("shuffles with the lane at distance {}; allowed are 0 to {}", mask,
                         laneCount - 1));
  int lane = running % laneCount;
  const auto mine = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(exchange(shuffleLanes, &mine, 1)[lane ^ mask]);
}

/// The device takes the first lane's value for all: others would be lost.
int BlockRunner::uniform(int value) {
  const auto mine = std::bit_cast<std::uint32_t>(value);
  const auto first = std::bit_cast<int>(exchange(takeFirstLane, &mine, 1)[0]);
  if (value != first)
    failHere(
        fmt::format("calls uniform({}) where the first lane of its warp has {}", value, first));
  return first;
}

std::uint32_t BlockRunner::lanesWith(std::uint32_t value) {
  std::uint32_t lanes = 0;
  const std::uint32_t* values = exchange(matchLanes, &value, 1);
  for (int lane = 0; lane < laneCount; ++lane)
    lanes |= std::uint32_t(values[lane] == value) << lane;
  return lanes;
}

} // namespace kiln
