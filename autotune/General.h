// What is chosen for fixed sizes serves the same function with sizes that are known at run time
// only, as programs call it: where both are the same code the kernel is the same, and only its
// launch plan is another. And what is chosen at some run-time sizes serves others that are near.
#pragma once

#include "autotune/Key.h"
#include "autotune/store/Layers.h"

namespace kiln::autotune {

/// The launch plan of a task's general function; empty: there is none, or its code is not `cuda`.
std::string generalPlan(const Task& task, CompileOptions options, std::string_view cuda);
/// The same with these schedules.
std::string generalPlan(const Task& task, const std::string& schedules);

/// Gives the general function of a key's task, at the sizes of the task, the key's choice and what
/// it is believed by: verdicts, times and baselines, none of which depend on where the number of
/// rows is written. False: there is no choice or no general function, or it is other code.
bool chooseForGeneral(Store& store, const KnownKey& known);

/// Choices for other run-time sizes that may be taken where the layers have none, the nearest
/// first: measured, pinned or the vendor's, each size from half to twice the one that is wanted,
/// and the schedule one that fits here too. Empty where no size is known at run time only.
std::vector<Found> transferable(const Layers& layers, const Described& described);

} // namespace kiln::autotune
