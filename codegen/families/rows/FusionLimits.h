// How much one kernel takes. What the family could execute may still be too much: for the registers
// and the shared memory of a multiprocessor under any schedule, or for a compiler that should be
// done in a second.
#pragma once

#include "codegen/families/rows/Kernel.h"

namespace kiln::rows {

/// Of what a kernel computes, values of one element that wait for their last reader, each in a
/// register.
inline constexpr int kMostWaiting = 96;
/// Tensors that one kernel reads and writes.
inline constexpr size_t kMostTensors = 64;

/// Why it is too much for one kernel of the target, with the numbers; empty: it is not. Binds the
/// kernel to buffers of its own, so that it is of no further use.
std::string tooMuch(RowKernel& kernel, const family::Considered& considered,
                    const family::FusionLimits& limits);

} // namespace kiln::rows
