// What limits the lines of a report: stores have the times of rooflines, not their names.
#pragma once

#include "autotune/report/Report.h"

namespace kiln::autotune {

/// A roofline that is the time of the bytes is theirs. Of one beyond that the function is planned
/// again; one of another version, which this one cannot plan, stays without a name.
void nameLimits(Report& report, const Store& store);

} // namespace kiln::autotune
