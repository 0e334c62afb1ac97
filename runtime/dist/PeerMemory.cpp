// See PeerMemory.h.
#include "runtime/dist/PeerMemory.h"
#include "runtime/dist/Fail.h"

#include <ATen/ATen.h>
#include <atomic>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace kiln::dist {

namespace symmetric = c10d::symmetric_memory;
using at::Tensor;

namespace {

constexpr int kChannel = 0;

/// What has been enqueued, as c10d's operations are.
class Enqueued : public c10d::Work {
 public:
  explicit Enqueued(at::Device device) : device(device), done(device.type()) {}
  void record(const c10::Stream& stream) { done.record(stream); }

  bool isCompleted() override { return done.query(); }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    done.block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

 private:
  at::Device device;
  c10::Event done;
};

void check(const Place& place, const GroupOptions& options) {
  if (!options.device.is_cuda())
    fail(ErrorKind::input,
         "peerBytes = {}: memory that ranks share is that of GPUs, and tensors are "
         "on {}; leave it 0",
         options.peerBytes, options.device.str());
  if (place.localSize != place.size)
    fail(ErrorKind::input,
         "peerBytes = {}: {} of {} ranks are on this machine; ranks of several "
         "machines share no memory: leave it 0",
         options.peerBytes, place.localSize, place.size);
}

/// Of a name of its own for each group of the process, which all ranks count alike.
std::string nameOfGroup() {
  static std::atomic<int> count = 0;
  return fmt::format("kiln/peers/{}", count++);
}

} // namespace

PeerMemory::PeerMemory(const StorePtr& store, const Place& place, const GroupOptions& options)
    : device((check(place, options), options.device)), rank(place.rank), size(place.size),
      most(options.peerBytes), timeout(std::size_t(options.limit.count())),
      stream(c10::impl::VirtualGuardImpl(device.type())
                 .getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {
  ::setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", /*replace=*/0); // nothing here needs it
  const std::string name = nameOfGroup();
  try {
    // Symmetric memory looks a group up by its name, for its ranks and their store alone.
    group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
    c10d::register_process_group(name, group);
    symmetric::set_group_info(name, rank, size, store);
    memory = symmetric::empty_strided_p2p({most}, {1}, at::kByte, device, name, std::nullopt);
    peers = symmetric::rendezvous(memory, name);
  } catch (const c10::Error& error) {
    fail(ErrorKind::unavailable,
         "rank {} of {}: GPUs of this machine cannot share {} bytes of memory: {}; leave peerBytes "
         "0",
         rank, size, most, error.what_without_backtrace());
  }
}

bool PeerMemory::takes(const Tensor& tensor) const {
  const at::ScalarType dtype = tensor.scalar_type();
  return (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) &&
         std::int64_t(tensor.nbytes()) <= most && tensor.numel() > 0;
}

PeerMemory::Shared& PeerMemory::sharedFor(const Tensor& tensor) {
  Shared& found = shared[{tensor.numel(), tensor.scalar_type()}];
  if (found.parts.empty())
    for (int peer = 0; peer < size; ++peer)
      found.parts.push_back(peers->get_buffer(peer, {tensor.numel()}, tensor.scalar_type(), 0));
  return found;
}

/// Behind the first barrier all have written, behind the second all have read.
c10::intrusive_ptr<c10d::Work> PeerMemory::allReduce(const Tensor& tensor) {
  auto work = c10::make_intrusive<Enqueued>(device);
  c10::Event before(device.type());
  before.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  before.block(stream);
  const c10::StreamGuard guard(stream);
  const Tensor flat = tensor.view({-1});
  Shared& here = sharedFor(flat);
  here.parts[std::size_t(rank)].copy_(flat, /*non_blocking=*/true);
  peers->barrier(kChannel, timeout);
  here.sum.run(here.parts, flat);
  peers->barrier(kChannel, timeout);
  work->record(stream);
  return work;
}

double PeerMemory::microseconds(Group& group, std::int64_t bytes, bool byPeers) {
  constexpr int warmups = 5, times = 30;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const Tensor tensor = at::zeros({bytes / 4}, at::TensorOptions().device(device));
  most = byPeers ? bytes : 0;
  std::chrono::steady_clock::time_point begin;
  for (int i = -warmups; i < times; ++i) {
    if (i == 0) {
      guard.synchronizeDevice(device.index());
      group.barrier();
      begin = std::chrono::steady_clock::now();
    }
    group.allReduce(tensor).wait();
  }
  guard.synchronizeDevice(device.index());
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return group.largest(took.count() / times);
}

void PeerMemory::measure(Group& group) {
  std::int64_t chosen = 0;
  const std::int64_t end = most;
  for (std::int64_t bytes = 1024; bytes <= end; bytes *= 4) {
    const double without = microseconds(group, bytes, /*byPeers=*/false);
    if (microseconds(group, bytes, /*byPeers=*/true) >= without)
      break;
    chosen = bytes;
  }
  most = chosen;
}

} // namespace kiln::dist
