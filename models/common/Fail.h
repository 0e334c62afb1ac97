// Throws kiln::Error with a formatted message: what is wrong with its numbers, what is allowed and
// what to try next.
#pragma once

#include "kiln/kiln.h"

#include <fmt/format.h>

#include <utility>

namespace kiln::models {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

} // namespace kiln::models
