// Short ways to run a kernel written as text and, with test/Errors.h, to see the error that it
// makes.
#pragma once

#include "codegen/host/HostTarget.h"
#include "test/Errors.h"

#include <string>
#include <vector>

namespace kiln::test {

template <typename T> std::uint64_t pointer(const std::vector<T>& data) {
  return reinterpret_cast<std::uint64_t>(data.data());
}

template <typename T>
MemoryRegion region(const char* name, std::vector<T>& data, MemoryRegion::Role role) {
  return {name, data.data(), data.size() * sizeof(T), role};
}
template <typename T> MemoryRegion input(const char* name, std::vector<T>& data) {
  return region(name, data, MemoryRegion::Role::input);
}
template <typename T> MemoryRegion output(const char* name, std::vector<T>& data) {
  return region(name, data, MemoryRegion::Role::output);
}

} // namespace kiln::test
