// What must hold between the parts of a launch plan, and between a plan and a target.
#pragma once

#include "codegen/backend/Cubin.h"
#include "codegen/backend/LaunchPlan.h"
#include "codegen/backend/Target.h"

namespace kiln {

/// Throws Error(input) for a plan that contradicts itself, naming the place.
void checkLaunchPlan(const LaunchPlan& plan);

/// Throws Error(infeasible) for a kernel that needs what the target lacks.
void checkTargetHas(const KernelLaunch& kernel, const Target& target);

/// Throws Error(input) if the code takes other parameters than the plan passes.
void checkParameters(const KernelLaunch& launch, const CubinKernel& kernel);

/// Throws Error(input) if the registers that the roles end with are more than the block has, which
/// begins with `registers` a thread: the last role would wait for the rest forever.
void checkRoles(const KernelLaunch& kernel, int registers);

} // namespace kiln
