// Memory of the GPUs of one machine that all ranks see: c10d's symmetric memory, without multicast.
// Whoever allocates does so on all ranks at once, in the same order.
#pragma once

#include "runtime/dist/Backends.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

namespace kiln::dist {

class SharedMemory {
 public:
  /// Throws Error(input) for ranks of several machines and tensors of CPUs. `option`: what asked
  /// for it, for the message.
  SharedMemory(const char* option, const StorePtr& store, const Place& place,
               const GroupOptions& options);

  struct Block {
    at::Tensor bytes; // this rank's
    c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory> peers;

    /// Elements of a rank's, from the block's begin on.
    at::Tensor of(int rank, std::int64_t elements, at::ScalarType dtype) const {
      return peers->get_buffer(rank, {elements}, dtype, 0);
    }
    /// Enqueues on the current stream: behind it, all ranks have come as far. Who watches over the
    /// group's limit calls letPass(); where nobody does, the device fails a while later.
    void barrier() const { peers->barrier(/*channel=*/0, timeout); }
    /// Of a group that has failed: this rank's barriers need no peer, while this is called again
    /// and again.
    void letPass() const;
    std::size_t timeout = 0; // milliseconds
  };
  /// Throws Error(unavailable) where GPUs cannot reach each other's memory.
  Block allocate(std::int64_t bytes) const;

  at::Device device() const { return onDevice; }
  int rank() const { return place.rank; }
  int size() const { return place.size; }

 private:
  at::Device onDevice;
  Place place;
  const char* option;
  std::size_t timeout;
  std::string name;                             // of the group
  c10::intrusive_ptr<c10d::ProcessGroup> group; // the registry does not keep it
};

} // namespace kiln::dist
