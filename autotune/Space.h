// All schedules of a kernel: built from the knobs, checked against the constraints, ranked by the
// cost model.
#pragma once

#include "autotune/Cost.h"
#include "autotune/Records.h"

#include <map>
#include <optional>

namespace kiln::autotune {

struct Candidate {
  rows::Schedule schedule;
  Cost cost;               // by which candidates are ranked
  double microseconds = 0; // that it should take
};

/// What fits one kernel of a function.
struct KernelSpace {
  std::string kernel;              // its entry point
  std::vector<Candidate> feasible; // cheapest first
  double bytes = 0;                // that it moves at least
  std::vector<Refusal> refusals;   // of those that do not fit, if they were asked for
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
/// The first of the space, without the rest of it; none if nothing fits.
std::optional<Candidate> cheapest(const rows::Facts& facts, const Target& target);
/// Of a kernel over lists. The family's default comes first if it fits.
Space enumerate(const segments::Facts& facts, const Target& target, double elements,
                bool explain = true);

} // namespace kiln::autotune
