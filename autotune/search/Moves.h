// Steps from one schedule of a kernel to those near it, as the kernel's family understands near.
#pragma once

#include "autotune/KernelSpace.h"

#include <functional>

namespace kiln::autotune {

/// At most `count` schedules one move from `from` that `isWanted`, cheapest first: places in the
/// space, which is ordered by cost.
std::vector<std::size_t> neighbours(const KernelSpace& space, std::size_t from, std::size_t count,
                                    const std::function<bool(std::size_t)>& isWanted);

} // namespace kiln::autotune
