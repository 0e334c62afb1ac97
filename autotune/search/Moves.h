// Steps from one schedule to those near it: at most two knobs change, each by one step of its
// scale. Two, because a kernel's knobs share what they divide: more lanes take more threads.
#pragma once

#include "autotune/Space.h"

#include <functional>

namespace kiln::autotune {

/// Whether `b` is one move from `a`.
bool isNear(const rows::Schedule& a, const rows::Schedule& b);

/// At most `count` schedules one move from `from` that `isWanted`, cheapest first: places in
/// `space`, which is ordered by cost.
std::vector<std::size_t> neighbours(std::span<const Candidate> space, std::size_t from,
                                    std::size_t count,
                                    const std::function<bool(std::size_t)>& isWanted);

} // namespace kiln::autotune
