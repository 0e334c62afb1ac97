// What a search learns of kernels that the assembler spilled registers of. A function of several
// kernels has a schedule of each, and whatever the others' are, that one spills again.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace kiln::autotune {

class Spills {
 public:
  /// `schedules` was refused, with this text (program::BrokenPromise). Nothing is learnt of a
  /// function's only kernel, whose schedule is all there is.
  void learn(std::string_view schedules, std::string_view why);
  /// Whether one of these is known to spill.
  bool isIn(std::string_view schedules) const;

 private:
  std::set<std::string, std::less<>> parts; // "kernel = #kiln.schedule<...>"
};

} // namespace kiln::autotune
