// Short ways to run a kernel written as text and to see the error that it makes.
#pragma once

#include "codegen/host/HostTarget.h"

#include <gtest/gtest.h>

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

/// Text of the Error that `action` throws, which must be of this kind.
template <typename Action> std::string errorOf(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

} // namespace kiln::test
