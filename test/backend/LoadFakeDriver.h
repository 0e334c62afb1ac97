// The stand-in driver of FakeDriver.h in the place of the machine's. Targets link
// `with_fake_driver`.
#pragma once

#include "test/backend/FakeDriver.h"

#include <dlfcn.h>
#include <stdexcept>

namespace kiln::test {

/// By its path, whatever paths the loader is told to search: whoever then opens libcuda.so.1 by its
/// name gets this one. Before anything in the process opens a driver.
inline FakeDriver& fakeDriver() {
  void* library = ::dlopen(KILN_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(::dlerror());
  return *reinterpret_cast<FakeDriverFunction>(::dlsym(library, "kilnFakeDriver"))();
}

} // namespace kiln::test
