// KILN_MODE=tune: tunes one task in worker processes before its kernel is chosen.
#pragma once

#include "kiln/tune.h"

namespace kiln::runtime {

/// Into a store, on this GPU, unless it has a measured choice. Throws Error: `unavailable` without
/// the command kernel-compile, whose workers run the candidates; `input` without a store.
void tuneInto(const std::filesystem::path& store, const TuningTask& task, int device);

} // namespace kiln::runtime
