// What fits one kernel of a function: the part of a search problem that its family knows.
#pragma once

#include "autotune/Records.h"
#include "codegen/model/Roofline.h"

#include <memory>

namespace kiln::autotune {

using model::Candidate;
using model::Cost;
using model::CostConstants;
using model::kCostConstants;
using model::Space;

struct KernelSpace {
  std::string kernel; // its entry point
  std::shared_ptr<const model::KernelModel> model;
  std::vector<Candidate> feasible; // cheapest first
  double bytes = 0;                // that it moves at least
  std::vector<Refusal> refusals;   // of those that do not fit, if they were asked for
  model::Roofline roofline = {};
};

} // namespace kiln::autotune
