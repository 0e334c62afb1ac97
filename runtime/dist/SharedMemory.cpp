// See SharedMemory.h.
#include "runtime/dist/SharedMemory.h"
#include "runtime/dist/Fail.h"

#include <ATen/ATen.h>
#include <atomic>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace kiln::dist {

namespace symmetric = c10d::symmetric_memory;

namespace {

constexpr std::size_t kGrace = 6'000; // milliseconds, in which a group's watch aborts

void check(const char* option, const Place& place, const GroupOptions& options) {
  if (!options.device.is_cuda())
    fail(ErrorKind::input,
         "{}: memory that ranks share is that of GPUs, and tensors are on {}; leave it out", option,
         options.device.str());
  if (place.localSize != place.size)
    fail(ErrorKind::input,
         "{}: {} of {} ranks are on this machine; ranks of several machines share no memory: leave "
         "it out",
         option, place.localSize, place.size);
}

/// Of a name of its own for each group of the process, which all ranks count alike.
std::string nameOfGroup() {
  static std::atomic<int> count = 0;
  return fmt::format("kiln/peers/{}", count++);
}

} // namespace

SharedMemory::SharedMemory(const char* option, const StorePtr& store, const Place& place,
                           const GroupOptions& options)
    : onDevice((check(option, place, options), options.device)), place(place), option(option),
      timeout(std::size_t(options.limit.count()) + kGrace), name(nameOfGroup()) {
  ::setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", /*replace=*/0); // nothing here needs it
  // Symmetric memory looks a group up by its name, for its ranks and their store alone.
  group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.size);
  c10d::register_process_group(name, group);
  symmetric::set_group_info(name, place.rank, place.size, store);
}

SharedMemory::Block SharedMemory::allocate(std::int64_t bytes) const {
  try {
    Block made;
    made.bytes =
        symmetric::empty_strided_p2p({bytes}, {1}, at::kByte, onDevice, name, std::nullopt);
    made.peers = symmetric::rendezvous(made.bytes, name);
    made.timeout = timeout;
    return made;
  } catch (const c10::Error& error) {
    fail(ErrorKind::unavailable,
         "rank {} of {}: GPUs of this machine cannot share {} bytes of memory: {}; leave {} out",
         place.rank, place.size, bytes, error.what_without_backtrace(), option);
  }
}

/// A barrier waits until each peer has put a signal into this rank's pad, which it takes out again,
/// and before that until the peer has taken out this rank's last one.
void SharedMemory::Block::letPass() const {
  const auto signals = std::int64_t(peers->get_signal_pad_size() / 4);
  for (int rank = 0; rank < peers->get_world_size(); ++rank)
    peers->get_signal_pad(rank, {signals}, at::kInt).fill_(rank == peers->get_rank() ? 1 : 0);
}

} // namespace kiln::dist
