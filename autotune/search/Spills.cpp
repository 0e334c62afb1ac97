// See Spills.h.
#include "autotune/search/Spills.h"

#include <algorithm>

namespace kiln::autotune {

/// A kernel's part of a text of several schedules; empty: it has none.
static std::string_view partOf(std::string_view schedules, std::string_view kernel) {
  const std::string begin = std::string(kernel) + " = ";
  for (std::size_t at = 0; (at = schedules.find(begin, at)) != schedules.npos; ++at) {
    const std::size_t end = schedules.find('>', at);
    if (at > 0 && (schedules[at - 1] == '{' || schedules[at - 1] == ' ') && end != schedules.npos)
      return schedules.substr(at, end + 1 - at);
  }
  return {};
}

void Spills::learn(std::string_view schedules, std::string_view why) {
  constexpr std::string_view before = "kernel '", behind = "' spills";
  for (std::size_t at = 0; (at = why.find(before, at)) != why.npos;) {
    at += before.size();
    const std::size_t end = why.find('\'', at);
    if (why.substr(std::min(end, why.size())).starts_with(behind))
      if (const auto part = partOf(schedules, why.substr(at, end - at)); !part.empty())
        parts.emplace(part);
  }
}

bool Spills::isIn(std::string_view schedules) const {
  return std::ranges::any_of(
      parts, [&](const std::string& part) { return schedules.find(part) != schedules.npos; });
}

} // namespace kiln::autotune
