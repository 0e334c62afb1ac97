// The words by which the store writes enumerations, for its writer and its reader.
#pragma once

#include "autotune/Records.h"

namespace kiln::autotune {

inline constexpr std::array<std::string_view, 2> regimeNames = {"cold", "warm"};
inline constexpr std::array<std::string_view, 12> failureNames = {
    "crash",         "hang", "illegal access", "misaligned",    "wrong result", "nan",
    "wrote outside", "race", "wrong tail",     "out of memory", "spill",        "launch"};
inline constexpr std::array<std::string_view, 5> sourceNames = {"measured", "transferred", "model",
                                                                "pinned", "vendor"};

template <class Names, class Value> std::string_view nameIn(const Names& names, Value value) {
  return names.at(static_cast<std::size_t>(value));
}

/// Empty for a word that no version knows.
template <class Value, class Names>
std::optional<Value> valueOf(const Names& names, std::string_view word) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == word)
      return static_cast<Value>(i);
  return std::nullopt;
}

} // namespace kiln::autotune
