// What ATen's own kernels take, for tuning to compare with: where Kiln's is not faster beyond
// doubt, ATen's is chosen, and routers call it. `kiln-baseline` does this for a workload file.
// Plain C++: no header of Torch. Errors are kiln::Error.
#pragma once

#include "kiln/cache.h"
#include "kiln/torch.h"

namespace kiln {

/// Times of the op of ATen that computes this very function of `rows x width`, its rows known at
/// run time and given by the task, or this very attention or its backward, by ATen's choice: cold,
/// by replays of a CUDA graph whose calls rotate through arguments and results beyond the L2. None:
/// ATen has no such op, or Kiln does not route it, so that nobody could call it in place of the
/// function. On the CPU, where the routers are tried out, by a clock. Takes the current device.
/// Throws Error: `unavailable` without a GPU, `infeasible` where ATen refuses.
KILN_API std::optional<cache::Baseline> timeATen(const TuningTask& task, Place place = Place::gpu,
                                                 std::size_t rounds = 64);

} // namespace kiln
