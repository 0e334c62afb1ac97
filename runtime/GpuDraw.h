// Seeds and offsets of random numbers for kernels that read them from the GPU's memory, where
// ATen's get them by value: nothing is copied or launched for a call.
#pragma once

#include "runtime/Backend.h"

namespace kiln::runtime {

/// Of the default generator of the current device. Equal states of the generator give equal
/// numbers: the seed is its seed, and the offset its Philox offset, which advances by 4, moved by
/// 2^62 to where no thread of ATen's kernels draws. Inside a capture they are the graph's, and one
/// small kernel adds what they move by.
Draw drawOnGpu();

} // namespace kiln::runtime
