// What the schedules of a function's kernels depend on, and which there are, whatever the family.
#pragma once

#include "autotune/Calibration.h"
#include "autotune/Space.h"

#include <variant>

namespace kiln::autotune {

struct KernelFacts {
  std::string name;
  std::variant<rows::Facts, segments::Facts> facts;
  double rows = kTypicalRows; // of lists: elements

  std::string family() const { return facts.index() == 0 ? "row" : "list"; }
  double bytesRead() const;
  double bytesWritten() const;
  std::int64_t sharedBytes(const rows::Schedule& schedule) const;
  std::int64_t registers(const rows::Schedule& schedule) const;
};

/// Of every kernel with schedules of a program's fused text, with the run-time sizes filled in.
std::vector<KernelFacts> factsOf(const std::string& text, const std::vector<std::int64_t>& sizes);

Space enumerate(const KernelFacts& kernel, const Target& target, bool explain = true);
Cost costOf(const rows::Schedule& schedule, const KernelFacts& kernel, const Target& target,
            const CostConstants& k = kCostConstants);
Work workOf(const KernelFacts& kernel);
/// Of any schedule of the kernel, also of one that its space leaves out.
Candidate candidateOf(const rows::Schedule& schedule, const KernelFacts& kernel,
                      const Target& target);

} // namespace kiln::autotune
