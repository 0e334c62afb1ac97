// How a store gets what it lacks: compiled by the cost model's choice, or tuned.
#pragma once

#include "autotune/Key.h"
#include "autotune/store/Store.h"
#include "kiln/tune.h"

namespace kiln::autotune {

/// The cost model's choice, compiled and kept. `described`: the task's.
Program compileInto(Store& store, const TuningTask& task, const Described& described);
/// kiln::tune on a store that is open.
std::vector<TuneResult> tuneInto(Store& store, std::span<const TuneTask> tasks,
                                 const TuneOptions& options);

} // namespace kiln::autotune
