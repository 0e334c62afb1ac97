// See PeerMemory.h.
#include "runtime/dist/PeerMemory.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kiln::dist {

using at::Tensor;

PeerMemory::PeerMemory(const SharedMemory& memory, std::int64_t bytes)
    : device(memory.device()), rank(memory.rank()), size(memory.size()), most(bytes),
      block(memory.allocate(bytes)), stream(streamOf(device)) {}

bool PeerMemory::takes(const Tensor& tensor) const {
  const at::ScalarType dtype = tensor.scalar_type();
  return (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) &&
         std::int64_t(tensor.nbytes()) <= most && tensor.numel() > 0;
}

PeerMemory::Shared& PeerMemory::sharedFor(const Tensor& tensor) {
  Shared& found = shared[{tensor.numel(), tensor.scalar_type()}];
  if (found.parts.empty())
    for (int peer = 0; peer < size; ++peer)
      found.parts.push_back(block.of(peer, tensor.numel(), tensor.scalar_type()));
  return found;
}

/// Behind the first barrier all have written, behind the second all have read.
c10::intrusive_ptr<c10d::Work> PeerMemory::allReduce(const Tensor& tensor) {
  return enqueueOn(stream, [&] {
    const Tensor flat = tensor.view({-1});
    Shared& here = sharedFor(flat);
    here.parts[std::size_t(rank)].copy_(flat, /*non_blocking=*/true);
    block.barrier();
    here.sum.run(here.parts, flat);
    block.barrier();
  });
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
    group.allReduce(tensor, Sum::plain, Order::inStream).wait();
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
