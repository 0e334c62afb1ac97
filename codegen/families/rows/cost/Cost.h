// What the schedules of a kernel of rows cost, and which there are. Cost.cpp has times and waiting,
// Losses.cpp and RingLosses.cpp what keeps a kernel from the time of a copy, Space.cpp the search
// space.
#pragma once

#include "codegen/families/rows/Schedule.h"
#include "codegen/model/Calibration.h"

#include <optional>

namespace kiln::rows {

using model::Cost;
using model::CostConstants;
using model::kCostConstants;
using model::Work;

/// `rows`: how many, where the facts do not fix it.
Cost costOf(const Schedule& schedule, const Facts& facts, const Target& target, double rows,
            const CostConstants& k = kCostConstants);
Work workOf(const Facts& facts, double rows);

/// All schedules that fit. Without `explain`, `refused` stays empty, which is several times faster.
model::Space enumerate(const Facts& facts, const Target& target, bool explain = true);

/// The first of the space, without the rest of it: the schedule to run without tuning. Throws
/// Error(infeasible) with the reasons if nothing fits.
Schedule defaultSchedule(const Facts& facts, const Target& target);
/// Whether anything fits; fast.
bool anyFits(const Facts& facts, const Target& target);

} // namespace kiln::rows
