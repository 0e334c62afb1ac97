// The family of kernels that only add up rows: a sum over some of the leading dimensions, or down
// very wide rows, and the sums of segments, whose rows are listed by a kernel of their own before.
// No kernel of the row family can add them up while it walks over rows; these kernels read what
// they sum from memory. How it is cut into work (device/sums.cuh) follows from the sizes
// by one small rule; it takes no schedule.
#pragma once

#include "dialect/Kiln.h"

#include <optional>
#include <string>

namespace kiln::row_sums {

/// A kernel of the family: at most a widening, the sum, at most a rounding.
struct RowSum {
  mlir::Operation* op = nullptr;
  mlir::BlockArgument rows;       // as they lie in memory
  llvm::SmallVector<bool> summed; // by dimension of `rows`
  // Of segments; else null:
  mlir::BlockArgument index, like; // `like`: null if their number is a constant
  int64_t padding = -1;            // an index that names no segment
};

/// Whether only this family can execute the operation.
bool standsAlone(mlir::Operation* op);

/// The sum that the operations of a block are; none, and a reason, if something else is there.
std::optional<RowSum> analyze(mlir::Block& block, std::string& reason);

/// Threads of a block that lists rows, the segments that it lists, and its bytes of shared memory.
inline constexpr int kListThreads = 512, kListSegments = 256;
std::int64_t listBytes();

/// Threads of a block, and blocks that fit on a multiprocessor at least.
inline constexpr int kThreads = 256, kBlocks = 4;

/// How the work is cut; see device/sums.cuh.
struct Tiling {
  std::int64_t lanes = 32, vector = 1, units = 1, parts = 1;
};
/// What the rule looks at. Sizes that are known at run time only are -1.
struct Sizes {
  std::int64_t columns = 1; // of a row
  std::int64_t vector = 1;  // columns that one access moves
  std::int64_t outputs = -1, terms = -1;
  bool listed = false; // terms vary in number
};
Tiling tilingOf(const Sizes& sizes);

} // namespace kiln::row_sums
