// See Spills.h.
#include "autotune/search/Spills.h"

#include "autotune/search/Points.h"

#include <algorithm>

namespace kiln::autotune {

void Spills::learn(std::string_view schedules, std::string_view why) {
  constexpr std::string_view before = "kernel '", behind = "' spills";
  for (std::size_t at = 0; (at = why.find(before, at)) != why.npos;) {
    at += before.size();
    const std::size_t end = std::min(why.find('\'', at), why.size());
    const std::string kernel(why.substr(at, end - at));
    const std::string_view schedule = textOfKernel(schedules, kernel);
    if (why.substr(end).starts_with(behind) && !schedule.empty())
      spilled.emplace(kernel, schedule);
  }
}

bool Spills::isIn(std::string_view schedules) const {
  return std::ranges::any_of(
      spilled, [&](const auto& one) { return textOfKernel(schedules, one.first) == one.second; });
}

} // namespace kiln::autotune
