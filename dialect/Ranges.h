// Independent numbers or tasks in ranges, by all cores of the host: references of large tensors
// take seconds.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace kiln::ir {

/// As many as there can be of at least `least` numbers each: at least one, at most 64. The same on
/// every host, so that what is added up range by range is too.
int64_t rangesOf(int64_t count, int64_t least);

/// Calls work(range, begin, end) for each of the `ranges` consecutive parts of [0, count), some at
/// the same time: no two may write the same. If some throw, the error of the first range that did
/// is thrown when all have ended.
void inRanges(int64_t count, int64_t ranges,
              llvm::function_ref<void(int64_t range, int64_t begin, int64_t end)> work);

/// Elements that are worth a thread, of what takes a few nanoseconds each.
inline constexpr int64_t kWorthAThread = 1 << 18;
/// The same of as many elements, in as many ranges as are worth it.
void inRanges(int64_t elements, llvm::function_ref<void(int64_t begin, int64_t end)> work);

} // namespace kiln::ir
