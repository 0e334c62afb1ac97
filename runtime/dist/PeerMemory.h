// Sums of small tensors by ranks of one machine without NCCL: each rank writes its tensor into
// memory that all of them see, and reads and adds those of all, in the order of ranks (one-shot
// all-reduce). The memory and the barriers are c10d's symmetric memory, without multicast; the sum
// is Kiln's kernel over lists (kiln/bucket_ops.h).
#pragma once

#include "kiln/bucket_ops.h"
#include "runtime/dist/Backends.h"

#include <c10/core/Stream.h>
#include <map>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

namespace kiln::dist {

class PeerMemory {
 public:
  /// By all ranks at once. Throws Error(input) for ranks of several machines and tensors of CPUs,
  /// Error(unavailable) where GPUs cannot reach each other's memory.
  PeerMemory(const StorePtr& store, const Place& place, const GroupOptions& options);

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
  std::size_t timeout;                          // milliseconds
  c10::intrusive_ptr<c10d::ProcessGroup> group; // the registry does not keep it
  at::Tensor memory;
  c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory> peers;
  c10::Stream stream;
  std::map<std::pair<std::int64_t, at::ScalarType>, Shared> shared;
};

} // namespace kiln::dist
