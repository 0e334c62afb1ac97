// See Enqueued.h.
#include "runtime/dist/Enqueued.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kiln::dist {

void Enqueued::synchronize() {
  const c10::Stream current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  if (recorded != current) // a stream is in order: to wait for itself takes the device some us
    done.block(current);
}

c10::intrusive_ptr<c10d::Work> enqueuedOnCurrent(at::Device device) {
  auto enqueued = c10::make_intrusive<Enqueued>(device);
  enqueued->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return enqueued;
}

c10::intrusive_ptr<c10d::Work> enqueueOn(const c10::Stream& stream,
                                         const std::function<void()>& work) {
  const at::Device device = stream.device();
  c10::Event before(device.type());
  before.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  before.block(stream);
  const c10::StreamGuard guard(stream);
  work();
  return enqueuedOnCurrent(device);
}

c10::Stream streamOf(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type())
      .getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

} // namespace kiln::dist
