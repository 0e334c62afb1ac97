// What the schedules of a kernel of rows cost, and which there are. Cost.cpp has times and waiting,
// CostTerms.cpp and RingTerms.cpp what keeps a kernel from the time of a copy, Unlikely.cpp what no
// kernel is known to want, Space.cpp the search space.
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

/// What none costs less than that has these lanes, threads and vectors, and keeps and launches
/// alike, whatever its rows and blocks are.
double leastCost(const Schedule& schedule, const Facts& facts, const Target& target, double rows,
                 const CostConstants& k = kCostConstants);

/// The logarithm of what costs more by a schedule that the H200 was never seen to want
/// (Unlikely.cpp); 0: a likely one.
double unlikelyTerm(const Schedule& schedule, const Facts& facts, const Target& target,
                    const CostConstants& k = kCostConstants);

/// Rows that a schedule is chosen for where their number is known at run time only.
double typicalRows(const Facts& facts);

/// The schedules that fit. Unless they are to be explained, `refused` stays empty.
model::Space enumerate(const Facts& facts, const Target& target,
                       model::Listing listing = model::Listing::explained);

/// The first of the space, without the rest of it: the schedule to run without tuning. Throws
/// Error(infeasible) with the reasons if nothing fits.
Schedule defaultSchedule(const Facts& facts, const Target& target);
/// Whether anything likely fits; fast.
bool anyFits(const Facts& facts, const Target& target);

} // namespace kiln::rows
