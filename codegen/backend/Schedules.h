// Schedules of a function's kernels as one text: what CompileOptions takes and stores keep. The
// only one's text, or a dictionary by entry point; empty without any.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <utility>

namespace kiln {

std::string joinSchedules(std::span<const std::pair<std::string, std::string>> schedules);
/// Those of a plan.
std::string schedulesOf(const LaunchPlan& plan);

} // namespace kiln
