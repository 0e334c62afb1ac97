// What a search learns of kernels that the assembler spilled registers of. A function of several
// kernels has a schedule of each, and whatever the others' are, that one spills again. One spill
// may be an exception; each further one says that the model thinks too little of what the kernel
// needs.
#pragma once

#include "autotune/KernelSpace.h"

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kiln::autotune {

class Spills {
 public:
  /// `spaces`: of the function's kernels, in the order of their schedules.
  explicit Spills(std::span<const KernelSpace> spaces) : spaces(spaces) {}

  /// `schedules` was refused, with this text (program::BrokenPromise).
  void learn(const std::string& schedules, std::string_view why);
  /// Whether a kernel is known to spill with this schedule, "#kiln.schedule<...>". Nothing of the
  /// kind is known of a function's only kernel, whose schedule is all there is.
  bool has(const std::string& kernel, const std::string& schedule) const {
    return spilled.contains({kernel, schedule});
  }
  /// Whether one of these does.
  bool isIn(std::string_view schedules) const;
  /// Whether a kernel is likely to: its spills raise what the model says that it needs.
  bool isLikely(const KernelSpace& space, const Schedule& schedule, const Target& target) const;

 private:
  std::span<const KernelSpace> spaces;
  std::set<std::pair<std::string, std::string>> spilled; // kernel and schedule
  std::map<std::string, std::set<std::string>> refused;  // by kernel that spilled
};

} // namespace kiln::autotune
