// How buffers are reached: strides as constants, run-time values or products of run-time sizes;
// leading dimensions merged where every buffer walks them alike; the widest access that
// alignment proves.
#pragma once

#include "codegen/family/Buffers.h"

namespace kiln::family {

/// A step between neighbours of one dimension, in elements: coefficient times run-time sizes, or
/// times a run-time stride of a buffer.
struct Stride {
  std::int64_t coefficient = 0;
  llvm::SmallVector<int> symbols; // sorted; empty for constants
  int runTimeDimension = -1;      // >= 0: the stride of that dimension, given at launch
  bool operator==(const Stride&) const = default;
  bool isConstant() const { return symbols.empty() && runTimeDimension < 0; }
};

/// A number that the step is known to be a multiple of, in elements: of a run-time stride by what
/// the buffer's layout promises. 0: it is 0.
std::int64_t knownMultiple(const Stride& stride, const TensorInfo& tensor);

/// One buffer seen from the iteration space.
struct Access {
  const BufferInfo* buffer = nullptr;
  llvm::SmallVector<Stride> leading; // one a leading dimension of the space; 0 = repeated
  Stride column;                     // 0 where the value does not depend on the column
  ir::PairsAttr pairs;               // not null: each column reads its partner
};

Access makeAccess(const BufferInfo& buffer, llvm::ArrayRef<int> map, size_t leadingRank,
                  ir::PairsAttr pairs = {});

/// The buffer itself is the space: all its dimensions are leading ones.
Access makeAccess(const BufferInfo& buffer);

/// Runs of leading dimensions that are walked as one, each [first, last]. At least one run.
llvm::SmallVector<std::pair<size_t, size_t>> mergeDimensions(llvm::ArrayRef<Extent> space,
                                                             llvm::ArrayRef<Access> accesses);

/// Whether rows of `elements` are neighbours in memory, element by element, and columns are not.
bool isTransposed(const Access& access, std::int64_t elements);
/// Whether rows of `elements` lie one after another, the first at a multiple of 16 bytes.
bool hasPackedRows(const Access& access, llvm::ArrayRef<Extent> space, std::int64_t elements);
/// The same, of what bulk copies can move: values of rows have at least 4 bytes.
bool hasDenseRows(const Access& access, llvm::ArrayRef<Extent> space, std::int64_t elements);

/// The largest power of two of elements, at most `vector`, that can be moved at once.
std::int64_t widestAccess(const Access& access, std::int64_t vector);

} // namespace kiln::family
