// kiln::verify where a family has chosen the shape.
#pragma once

#include "kiln/verify.h"

namespace kiln::program {

/// With lists of tensors of these lengths; those of a program without lists do not matter.
Verification verify(const Program& program, const RunOptions& options,
                    std::span<const std::int64_t> lengths);

} // namespace kiln::program
