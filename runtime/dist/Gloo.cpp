// See Backends.h: c10d's Gloo, for tensors of CPUs and numbers of the host.
#include "runtime/dist/Backends.h"

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace kiln::dist {

namespace {

/// GLOO_SOCKET_IFNAME names an interface; ranks of one machine need none but its own.
auto networkOf(const Place& place) {
  using Gloo = c10d::ProcessGroupGloo;
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name && *name)
    return Gloo::createDeviceForInterface(name);
  return place.localSize == place.size ? Gloo::createDeviceForHostname("127.0.0.1")
                                       : Gloo::createDefaultDevice();
}

} // namespace

BackendPtr glooOf(const StorePtr& store, const Place& place, const GroupOptions& options) {
  auto chosen = c10d::ProcessGroupGloo::Options::create(options.limit);
  chosen->devices.push_back(networkOf(place));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>("gloo", store), place.rank, place.size, chosen);
}

} // namespace kiln::dist
