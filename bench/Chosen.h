// What a store of tuned kernels has chosen for an entry of a workload file.
#pragma once

#include "bench/Entries.h"
#include "kiln/tuner.h"

namespace kiln::bench {

/// A store alone, without the layers that usually stand around it.
Tuner openStore(const std::string& file);

/// Its choice for these very sizes on this GPU. Throws Error(missing) without one.
std::string chosenSchedule(const Tuner& tuner, const Entry& entry, const CompileOptions& given);

} // namespace kiln::bench
