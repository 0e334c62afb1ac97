// All schedules of a row kernel: built from the knobs, checked against the constraints, ranked
// by the cost model.
#pragma once

#include "autotune/Cost.h"

#include <map>

namespace kiln::autotune {

struct Candidate {
  rows::Schedule schedule;
  Prediction prediction;
};

struct Space {
  std::vector<Candidate> feasible; // cheapest first
  struct Refused {
    std::int64_t count = 0;
    std::string worst; // one message, of the last that fell by this rule
  };
  std::map<std::string, Refused> refused; // by rule; a tuple counts once, under its first rule
  std::int64_t tuples = 0;
};

/// Without `explain`, `refused` stays empty, which is several times faster.
Space enumerate(const rows::Facts& facts, const Target& target, bool explain = true);

} // namespace kiln::autotune
