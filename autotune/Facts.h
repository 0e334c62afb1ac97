// What the schedules of a function's kernels depend on.
#pragma once

#include "autotune/Cost.h"

namespace kiln::autotune {

struct KernelFacts {
  std::string name;
  rows::Facts facts;
  double rows = kTypicalRows;
};

/// Of every kernel with schedules of a program's fused text, with the run-time sizes filled in.
std::vector<KernelFacts> factsOf(const std::string& text, const std::vector<std::int64_t>& sizes);

} // namespace kiln::autotune
