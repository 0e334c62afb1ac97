// The GPU as a device of the tuner: compiles with Kiln, verifies against fp64, times graph replays
// over inputs and outputs rotated beyond the L2. Meant to live in a worker process: after Lost the
// process's context is of no use any more.
#pragma once

#include "autotune/measure/Device.h"
#include "kiln/kiln.h"

namespace kiln::autotune {

/// Compiling with it needs no GPU; the rest throws Error(unavailable) without one.
KILN_API std::unique_ptr<Device> gpuDevice(int ordinal = 0);

/// What the journal keeps of a compiled program.
KILN_API Artifact artifactOf(const Program& program);

} // namespace kiln::autotune
