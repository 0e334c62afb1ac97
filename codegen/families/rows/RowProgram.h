// The row family's view of a kernel: every value as a function of (row, column).
// The iteration space is the largest shape in the kernel: leading dimensions, walked as rows,
// and the width. Each value is reached from the results through a map of its dimensions into
// that space, and perhaps at the partner of each column; what cannot be reached so is refused with
// a reason (and then not fused).
#pragma once

#include "codegen/family/Refusal.h"
#include "dialect/Kiln.h"

#include <memory>
#include <string>

namespace kiln::rows {

using family::Refusal;

/// Sums down columns that a kernel keeps in registers while it walks over its rows, of all columns
/// together: as many as were seen to compile, fewer where elements are loaded one by one. 512
/// threads have 88 of 45,056 each, of 128 registers: LayerNorm's gradients of 20,000 columns took
/// 109 us as two kernels, which both read everything, and 55 as one.
inline constexpr int64_t runningSums(int64_t width) {
  return width % 4 == 0 ? 45056 : 14336;
}

struct Node {
  enum class Kind { input, constant, index, random, gather, pick, scalar, rowReduce } kind;
  mlir::Value value;
  llvm::SmallVector<int> map; // dimension of the value -> of the space; -1 = size 1, repeated
  ir::PairsAttr pairs;        // not null: seen at each column's partner
  llvm::SmallVector<Node*> operands;
  bool perColumn = false; // depends on the column
  bool perRow = false;    // depends on the row
  int level = 0;          // row reductions that must be complete before
  mlir::Operation* op() const { return value.getDefiningOp(); }
  /// The element type as computed with.
  mlir::Type element() const { return ir::tensorType(value).getElementType(); }
};

struct Output {
  enum class Kind { full, row, columnSum, totalSum, rowSum } kind; // rowSum: of values of rows
  Node* node;                                                      // for sums: what is summed
  llvm::SmallVector<int> map; // of a full or a row output: dimension of it -> of the space
  unsigned index;             // result of the kernel
  mlir::Location location;
};

struct RowProgram {
  llvm::SmallVector<int64_t> space;         // sizes, kDynamic allowed but in the last
  std::vector<std::unique_ptr<Node>> nodes; // operands before users
  llvm::SmallVector<Output> outputs;
  int levels = 1; // 1 + deepest chain of row reductions

  int64_t width() const { return space.back(); }
  size_t rank() const { return space.size() - 1; } // leading dimensions
};

/// Analyses a block whose operations are elementary (scalar math, kiln.reduce,
/// kiln.broadcast, kiln.index, kiln.random, kiln.gather); null: the refusal says why not.
std::unique_ptr<RowProgram> analyze(mlir::Block& block, Refusal& refusal);

} // namespace kiln::rows
