// Sums of small tensors by ranks of one machine without NCCL: each rank writes its tensor into
// memory that all of them see, and reads and adds those of all, in the order of ranks (one-shot
// all-reduce). The sum is Kiln's kernel over lists (kiln/bucket_ops.h).
#pragma once

#include "kiln/bucket_ops.h"
#include "runtime/dist/Enqueued.h"
#include "runtime/dist/SharedMemory.h"

#include <map>

namespace kiln::dist {

class PeerMemory {
 public:
  /// By all ranks at once; `bytes` at most.
  PeerMemory(const SharedMemory& memory, std::int64_t bytes);

  /// Up to how many bytes it is faster than what the group takes without it, from 1 KiB on, agreed
  /// by all ranks: takes() says so from here on.
  void measure(Group& group);
  bool takes(const at::Tensor& tensor) const;
  /// In place. On a stream of its own, behind what the current one has got so far: all sums of this
  /// memory come one after another. Peers that do not come within the limit end in an error of the
  /// device.
  c10::intrusive_ptr<c10d::Work> allReduce(const at::Tensor& tensor);

  std::int64_t limit() const { return most; } // bytes

 private:
  /// Of as many elements of a dtype: the ranks' parts of the memory, by rank.
  struct Shared {
    std::vector<at::Tensor> parts;
    optim::OrderedSum sum;
  };
  Shared& sharedFor(const at::Tensor& tensor);
  double microseconds(Group& group, std::int64_t bytes, bool byPeers);

  at::Device device;
  int rank, size;
  std::int64_t most;
  SharedMemory::Block block;
  c10::Stream stream;
  std::map<std::pair<std::int64_t, at::ScalarType>, Shared> shared;
};

} // namespace kiln::dist
