// Throws kiln::Error with a formatted message.
#pragma once

#include "kiln/kiln.h"

#include <fmt/format.h>

#include <utility>

namespace kiln::dist {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

} // namespace kiln::dist
