// Short ways to run a kernel written as text and, with test/Errors.h, to see the error that it
// makes.
#pragma once

#include "codegen/host/HostTarget.h"
#include "test/Errors.h"

#include <stdexcept>
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

/// A step that a kernel's text could leave out, and a part of what is said then.
struct Omission {
  const char *name, *step, *instead, *message;
};
/// The text with its first `step` replaced, which must be there.
inline std::string replaced(std::string text, const std::string& step, const std::string& instead) {
  const std::size_t at = text.find(step);
  if (at == std::string::npos)
    throw std::invalid_argument("the text has no '" + step + "'");
  return text.replace(at, step.size(), instead);
}

} // namespace kiln::test
