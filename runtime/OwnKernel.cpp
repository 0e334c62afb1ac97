// See OwnKernel.h.
#include "runtime/OwnKernel.h"

#include "runtime/Log.h"

#include <future>

namespace kiln::runtime {

/// Made in a thread of its own: loading code must not end a capture of the caller's.
const Kernel* OwnKernel::on(const Backend& backend, int device) {
  OfDevice& mine =
      kernels[static_cast<std::size_t>(backend.place)].at(static_cast<std::size_t>(device));
  std::call_once(mine.asked, [&] {
    try {
      mine.kernel = std::async(std::launch::async, [&] {
                      backend.enter(device);
                      return backend.load(make(backend, device));
                    }).get();
    } catch (const std::exception& error) {
      log("{}: no kernel, ATen's are used for good: {}", name, error.what());
    }
  });
  return mine.kernel.get();
}

} // namespace kiln::runtime
