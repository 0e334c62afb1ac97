// What the texts of the numerics table are made of. X stands for the type of x, F for the same
// shape in fp32, R for one value a row.
#pragma once

#include "test/numerics/Texts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace kiln::test {

/// Replaces words in angle brackets: "<X>" by what `words` gives for "X".
inline std::string fill(std::string text,
                        std::initializer_list<std::pair<const char*, std::string>> words) {
  for (auto& [word, value] : words) {
    std::string place = fmt::format("<{}>", word);
    for (std::size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, place.size(), value);
  }
  return text;
}

inline std::string tensor(const std::string& lead, Width n, const std::string& type) {
  return fmt::format("tensor<{}{}x{}>", lead, n, type);
}
inline std::string rowValues(const std::string& lead, const std::string& type) {
  return fmt::format("tensor<{}{}>", lead, type);
}
inline std::string layoutAttr(const std::string& layout) {
  return layout.empty() ? "" : fmt::format(" {{kiln.layout = #kiln.layout<{}>}}", layout);
}

/// Lines that widen %from to fp32 as %to, and round %from to the type as %to; none for fp32.
inline std::string widen(const std::string& from, const std::string& to, const std::string& type) {
  return type == "f32" ? fmt::format("  %{} = arith.addf %{}, %zero : <F>\n", to, from)
                       : fmt::format("  %{} = arith.extf %{} : <X> to <F>\n", to, from);
}
inline std::string narrow(const std::string& from, const std::string& to, const std::string& type) {
  return type == "f32" ? fmt::format("  %{} = arith.addf %{}, %zero : <F>\n", to, from)
                       : fmt::format("  %{} = arith.truncf %{} : <F> to <X>\n", to, from);
}
/// A constant %c<name> of the shape of x, in fp32.
inline std::string constant(const std::string& name, double value) {
  return fmt::format("  %s_{0} = arith.constant dense<{1:e}> : tensor<f32>\n"
                     "  %{0} = kiln.broadcast %s_{0} dims [] like %x : tensor<f32>, <X> -> <F>\n",
                     name, value);
}

} // namespace kiln::test
