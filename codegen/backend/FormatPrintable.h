// fmt::format for lines that hold texts of strangers: see kiln::printable.
#pragma once

#include "kiln/kiln.h"

#include <fmt/format.h>

#include <concepts>

namespace kiln {

template <typename Value> decltype(auto) printableIfText(const Value& value) {
  if constexpr (std::convertible_to<const Value&, std::string_view>)
    return printable(value);
  else
    return value;
}

/// The arguments that are texts become printable; the format stays as it is.
template <typename... Args>
std::string formatPrintable(fmt::format_string<const Args&...> text, const Args&... args) {
  return fmt::format(fmt::runtime(text), printableIfText(args)...);
}

} // namespace kiln
