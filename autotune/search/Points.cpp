// See Points.h.
#include "autotune/search/Points.h"

#include "autotune/search/Moves.h"
#include "codegen/backend/Schedules.h"

#include <algorithm>
#include <limits>

namespace kiln::autotune {
namespace {

Points::Point pointAt(std::span<const KernelSpace> spaces, std::vector<std::size_t> at) {
  Points::Point point;
  std::vector<std::pair<std::string, std::string>> schedules;
  for (std::size_t k = 0; k < spaces.size(); ++k) {
    const Candidate& candidate = spaces[k].feasible[at[k]];
    schedules.emplace_back(spaces[k].kernel, toText(candidate.schedule));
    point.cost += candidate.cost.total;
    point.microseconds += candidate.microseconds;
  }
  point.schedules = joinSchedules(schedules);
  point.at = std::move(at);
  return point;
}

} // namespace

Points::Points(std::span<const KernelSpace> given) : spaces(given) {
  if (pointsOf(spaces) == 0)
    return;
  const std::vector<std::size_t> cheapest(spaces.size(), 0);
  points.push_back(pointAt(spaces, cheapest));
  for (std::size_t k = 0; k < spaces.size(); ++k)
    for (std::size_t place = 1; place < spaces[k].feasible.size(); ++place) {
      std::vector<std::size_t> at = cheapest;
      at[k] = place;
      points.push_back(pointAt(spaces, std::move(at)));
    }
  std::ranges::stable_sort(points, {}, &Point::cost);
  for (std::size_t i = 0; i < points.size(); ++i)
    bySchedules.emplace(points[i].schedules, i);
}

std::optional<std::size_t> Points::find(const std::string& schedules) {
  if (auto found = bySchedules.find(schedules); found != bySchedules.end())
    return found->second;
  if (spaces.size() < 2)
    return std::nullopt;
  std::vector<std::size_t> at;
  for (const KernelSpace& space : spaces) {
    auto isGiven = [&](const Candidate& candidate) {
      return schedules.find(space.kernel + " = " + toText(candidate.schedule)) != std::string::npos;
    };
    auto found = std::ranges::find_if(space.feasible, isGiven);
    if (found == space.feasible.end())
      return std::nullopt;
    at.push_back(static_cast<std::size_t>(found - space.feasible.begin()));
  }
  return add(std::move(at));
}

std::size_t Points::add(std::vector<std::size_t> at) {
  Point point = pointAt(spaces, std::move(at));
  auto [found, isNew] = bySchedules.emplace(point.schedules, points.size());
  if (isNew)
    points.push_back(std::move(point));
  return found->second;
}

std::vector<std::size_t> Points::neighbours(std::size_t from, std::size_t count,
                                            const std::function<bool(std::size_t)>& isWanted) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < spaces.size(); ++k) {
    std::vector<std::size_t> at = points[from].at;
    autotune::neighbours(spaces[k], at[k], count, [&](std::size_t place) {
      std::vector<std::size_t> next = at;
      next[k] = place;
      const std::size_t point = add(std::move(next));
      if (!isWanted(point))
        return false;
      found.push_back(point);
      return true;
    });
  }
  std::ranges::stable_sort(found, {}, [&](std::size_t i) { return points[i].cost; });
  found.resize(std::min(found.size(), count));
  return found;
}

std::size_t Points::cross(std::size_t first, std::size_t second) {
  std::vector<std::size_t> at = points[first].at;
  for (std::size_t k = 0; k < at.size(); ++k)
    if (at[k] == 0)
      at[k] = points[second].at[k];
  return add(std::move(at));
}

std::size_t pointsOf(std::span<const KernelSpace> spaces) {
  std::size_t count = spaces.empty() ? 0 : 1;
  for (const KernelSpace& space : spaces)
    if (__builtin_mul_overflow(count, space.feasible.size(), &count))
      return std::numeric_limits<std::size_t>::max();
  return count;
}

std::string cheapestOf(std::span<const KernelSpace> spaces) {
  return pointAt(spaces, std::vector<std::size_t>(spaces.size(), 0)).schedules;
}

} // namespace kiln::autotune
