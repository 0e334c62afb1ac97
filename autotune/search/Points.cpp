// See Points.h.
#include "autotune/search/Points.h"

#include "autotune/search/Moves.h"
#include "autotune/search/Spills.h"
#include "codegen/backend/Schedules.h"

#include <algorithm>
#include <limits>

namespace kiln::autotune {
namespace {

Points::Point pointAt(std::span<const KernelSpace> spaces, std::vector<std::size_t> at) {
  Points::Point point;
  for (std::size_t k = 0; k < spaces.size(); ++k) {
    const Candidate& candidate = spaces[k].feasible[at[k]];
    point.cost += candidate.cost.total;
    point.microseconds += candidate.microseconds;
  }
  point.at = std::move(at);
  return point;
}

std::string textAt(std::span<const KernelSpace> spaces, const std::vector<std::size_t>& at) {
  std::vector<std::pair<std::string, std::string>> schedules;
  for (std::size_t k = 0; k < spaces.size(); ++k)
    schedules.emplace_back(spaces[k].kernel, toText(spaces[k].feasible[at[k]].schedule));
  return joinSchedules(schedules);
}

} // namespace

std::string_view textOfKernel(std::string_view schedules, const std::string& kernel) {
  const std::size_t at = schedules.find(kernel + " = ");
  if (at == std::string_view::npos)
    return {};
  schedules.remove_prefix(at + kernel.size() + 3);
  return schedules.substr(0, schedules.find('>') + 1);
}

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
    byPlaces.emplace_hint(byPlaces.end(), points[i].at, i);
}

const std::string& Points::schedules(std::size_t point) const {
  std::string& text = texts[point];
  if (text.empty())
    text = textAt(spaces, points[point].at);
  return text;
}

std::optional<std::size_t> Points::find(const std::string& schedules) {
  const std::vector<Schedule> wanted = schedulesIn(spaces, schedules);
  std::vector<std::size_t> at;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const auto found = std::ranges::find(spaces[k].feasible, wanted[k], &Candidate::schedule);
    if (found == spaces[k].feasible.end())
      return std::nullopt;
    at.push_back(static_cast<std::size_t>(found - spaces[k].feasible.begin()));
  }
  return at.empty() ? std::nullopt : std::optional(add(std::move(at)));
}

std::size_t Points::add(std::vector<std::size_t> at) {
  auto [found, isNew] = byPlaces.emplace(at, points.size());
  if (isNew)
    points.push_back(pointAt(spaces, std::move(at)));
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

std::optional<std::size_t> Points::without(std::size_t from, const Spills& spills) {
  std::vector<std::size_t> at = points[from].at;
  for (std::size_t k = 0; k < spaces.size(); ++k) {
    const std::vector<Candidate>& all = spaces[k].feasible;
    while (at[k] < all.size() && spills.has(spaces[k].kernel, toText(all[at[k]].schedule)))
      ++at[k];
    if (at[k] == all.size())
      return std::nullopt;
  }
  return add(std::move(at));
}

bool Points::isLikelyToSpill(std::size_t point, const Spills& spills, const Target& target) const {
  for (std::size_t k = 0; k < spaces.size(); ++k)
    if (const Candidate& candidate = spaces[k].feasible[points[point].at[k]];
        spills.isLikely(spaces[k], candidate.schedule, target))
      return true;
  return false;
}

std::size_t Points::cross(std::size_t first, std::size_t second) {
  std::vector<std::size_t> at = points[first].at;
  for (std::size_t k = 0; k < at.size(); ++k)
    if (at[k] == 0)
      at[k] = points[second].at[k];
  return add(std::move(at));
}

std::vector<Schedule> schedulesIn(std::span<const KernelSpace> spaces,
                                  const std::string& schedules) {
  std::vector<Schedule> found;
  for (const KernelSpace& space : spaces) {
    const std::string_view text =
        spaces.size() == 1 ? std::string_view(schedules) : textOfKernel(schedules, space.kernel);
    const std::optional<Schedule> schedule = ofText(space.model->form(), text);
    if (!schedule)
      return {};
    found.push_back(*schedule);
  }
  return found;
}

std::size_t pointsOf(std::span<const KernelSpace> spaces) {
  std::size_t count = spaces.empty() ? 0 : 1;
  for (const KernelSpace& space : spaces)
    if (__builtin_mul_overflow(count, space.feasible.size(), &count))
      return std::numeric_limits<std::size_t>::max();
  return count;
}

std::string cheapestOf(std::span<const KernelSpace> spaces) {
  return textAt(spaces, std::vector<std::size_t>(spaces.size(), 0));
}

} // namespace kiln::autotune
