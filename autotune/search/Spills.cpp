// See Spills.h.
#include "autotune/search/Spills.h"

#include "autotune/search/Points.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

/// The kernels that the assembler's text says it spilled registers of.
std::vector<std::string> spilledIn(std::string_view why) {
  constexpr std::string_view before = "kernel '", behind = "' spills";
  std::vector<std::string> kernels;
  for (std::size_t at = 0; (at = why.find(before, at)) != why.npos;) {
    at += before.size();
    const std::size_t end = std::min(why.find('\'', at), why.size());
    if (why.substr(end).starts_with(behind))
      kernels.emplace_back(why.substr(at, end - at));
  }
  return kernels;
}

} // namespace

void Spills::learn(const std::string& schedules, std::string_view why) {
  const std::vector<std::string> kernels = spilledIn(why);
  for (const std::string& kernel : kernels)
    if (const std::string_view one = textOfKernel(schedules, kernel); !one.empty())
      spilled.emplace(kernel, one);
  for (const KernelSpace& space : spaces) // an only kernel need not be named
    if (spaces.size() == 1 || std::ranges::find(kernels, space.kernel) != kernels.end())
      refused[space.kernel].insert(schedules);
}

bool Spills::isIn(std::string_view schedules) const {
  return std::ranges::any_of(
      spilled, [&](const auto& one) { return textOfKernel(schedules, one.first) == one.second; });
}

bool Spills::isLikely(const KernelSpace& space, const Schedule& schedule,
                      const Target& target) const {
  const auto found = refused.find(space.kernel);
  if (found == refused.end())
    return false;
  const model::Resources asked = space.model->resources(schedule);
  const std::int64_t sharing = std::max<std::int64_t>(1, asked.threads * asked.blocks);
  const std::int64_t available =
      std::min<std::int64_t>(target.registersPerThread, target.registersPerSM / sharing);
  return asked.registers * (3 + std::ssize(found->second)) / 4 > available;
}

} // namespace kiln::autotune
