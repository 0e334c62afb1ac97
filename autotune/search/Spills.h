// What a search learns of kernels that the assembler spilled registers of. A function of several
// kernels has a schedule of each, and whatever the others' are, that one spills again.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace kiln::autotune {

class Spills {
 public:
  /// `schedules` was refused, with this text (program::BrokenPromise). Nothing is learnt of a
  /// function's only kernel, whose schedule is all there is.
  void learn(std::string_view schedules, std::string_view why);
  /// Whether a kernel is known to spill with this schedule, "#kiln.schedule<...>".
  bool has(const std::string& kernel, const std::string& schedule) const {
    return spilled.contains({kernel, schedule});
  }
  /// Whether one of these does.
  bool isIn(std::string_view schedules) const;

 private:
  std::set<std::pair<std::string, std::string>> spilled; // kernel and schedule
};

} // namespace kiln::autotune
