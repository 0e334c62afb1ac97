// The points of a search: a schedule for each kernel of a function. All together are too many to
// list, so there are those at which one kernel differs from its cheapest schedule, and whatever
// the search adds: a step of one kernel, or what two good points have changed, taken together.
#pragma once

#include "autotune/KernelSpace.h"

#include <deque>
#include <functional>
#include <optional>

namespace kiln::autotune {

class Spills; // Spills.h

class Points {
 public:
  struct Point {
    std::vector<std::size_t> at; // places in the spaces of the kernels
    double cost = 0;             // by which points are ranked
    double microseconds = 0;     // that it should take
  };

  /// Ordered by cost; the first is the cheapest of every kernel.
  explicit Points(std::span<const KernelSpace> spaces);

  std::size_t size() const { return points.size(); }
  const Point& operator[](std::size_t point) const { return points[point]; }
  /// As CompileOptions takes them.
  const std::string& schedules(std::size_t point) const;
  std::size_t kernels() const { return spaces.size(); }
  /// That of these schedules, if they fit here: a text that a point has, here or elsewhere.
  std::optional<std::size_t> find(const std::string& schedules);

  /// At most `count` points that differ from `from` by a step of one kernel and that `isWanted`,
  /// cheapest first.
  std::vector<std::size_t> neighbours(std::size_t from, std::size_t count,
                                      const std::function<bool(std::size_t)>& isWanted);
  /// The point with the next schedule of each kernel whose own is known to spill; none: a kernel
  /// has no other.
  std::optional<std::size_t> without(std::size_t from, const Spills& spills);
  bool isLikelyToSpill(std::size_t point, const Spills& spills, const Target& target) const;
  /// What `first` has changed from the cheapest, and what `second` has elsewhere.
  std::size_t cross(std::size_t first, std::size_t second);

 private:
  std::size_t add(std::vector<std::size_t> at);

  std::span<const KernelSpace> spaces;
  std::deque<Point> points;
  std::map<std::vector<std::size_t>, std::size_t> byPlaces;
  mutable std::map<std::size_t, std::string> texts; // of points that were asked for
};

/// Of a text of several kernels' schedules that of one: "#kiln.schedule<...>"; empty: it has none.
std::string_view textOfKernel(std::string_view schedules, const std::string& kernel);
/// Those that a text has for the kernels, in their order, as CompileOptions take it; empty: it is
/// none of theirs.
std::vector<Schedule> schedulesIn(std::span<const KernelSpace> spaces,
                                  const std::string& schedules);
/// How many points there are altogether.
std::size_t pointsOf(std::span<const KernelSpace> spaces);
/// The cheapest of every kernel, as CompileOptions takes them.
std::string cheapestOf(std::span<const KernelSpace> spaces);

} // namespace kiln::autotune
