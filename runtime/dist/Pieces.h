// What a rank owns of the parameters under a ShardedOptimizer: where its part of each bucket meets
// each parameter.
#pragma once

#include "kiln/optim.h"
#include "runtime/dist/Reducer.h"

namespace kiln::dist {

/// Elements first to first + count of a parameter, in the order in which they lie in memory.
struct Piece {
  Slot* slot;
  std::int64_t first, count;
  at::Tensor master;   // [count], what is updated
  at::Tensor weights;  // [count], of the parameter's buffer; the same as master but for bf16, fp16
  at::Tensor gradient; // [count], of the bucket's shard
  optim::AdamW* updates = nullptr;

  bool hasCopy() const { return !master.is_same(weights); }
};

/// Where [begin, begin + count) of a bucket, a rank's part, meets a parameter: [first, second) in
/// the bucket; empty where it does not.
std::pair<std::int64_t, std::int64_t> meeting(const Slot& slot, std::int64_t begin,
                                              std::int64_t count);

/// A bucket's parameters in one buffer laid out as the bucket's gradients.
struct FlatWeights {
  at::Tensor all, mine; // [elements], and this rank's part
  std::vector<Piece> pieces;

  /// Moves the parameters in.
  FlatWeights(Bucket& bucket, Group& group);
};

/// Numbers of a parameter as they lie in memory.
at::Tensor flatOf(const at::Tensor& numbers, const at::Tensor& parameter);

} // namespace kiln::dist
