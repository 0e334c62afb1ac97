// See Schedules.h.
#include "codegen/backend/Schedules.h"

#include <fmt/format.h>

namespace kiln {

std::string joinSchedules(std::span<const std::pair<std::string, std::string>> schedules) {
  if (schedules.size() == 1)
    return schedules[0].second;
  std::string all;
  for (const auto& [kernel, schedule] : schedules)
    all += fmt::format("{}{} = {}", all.empty() ? "" : ", ", kernel, schedule);
  return all.empty() ? "" : "{" + all + "}";
}

std::string schedulesOf(const LaunchPlan& plan) {
  std::vector<std::pair<std::string, std::string>> schedules;
  for (const KernelLaunch& kernel : plan.kernels)
    if (!kernel.schedule.empty())
      schedules.emplace_back(kernel.name, kernel.schedule);
  return joinSchedules(schedules);
}

} // namespace kiln
