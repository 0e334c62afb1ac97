// See Transfer.h.
#include "models/common/Transfer.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kiln::models {

namespace {

c10::Stream currentStream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

} // namespace

HostCopy::HostCopy(const at::Tensor& from) {
  if (from.is_cpu()) {
    copy = from;
    return;
  }
  copy = at::empty(from.sizes(), from.options().device(at::kCPU).pinned_memory(true));
  copy.copy_(from, /*non_blocking=*/true);
  done.emplace(from.device().type());
  done->record(currentStream(from.device()));
}

const at::Tensor& HostCopy::get() {
  if (done)
    done->synchronize();
  done.reset();
  return copy;
}

CopyStream::CopyStream(at::Device device) : device(device) {
  if (!device.is_cpu())
    stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void CopyStream::enqueue(const std::function<void()>& copies) {
  if (!stream)
    return copies();
  const c10::StreamGuard there(*stream);
  copies();
  last.emplace(device.type());
  last->record(*stream);
}

void CopyStream::join() {
  if (last)
    last->block(currentStream(device));
}

void CopyStream::use(const at::Tensor& tensor) const {
  if (stream && tensor.defined())
    tensor.record_stream(currentStream(device));
}

} // namespace kiln::models
