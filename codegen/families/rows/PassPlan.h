// Which pass over a tile computes what: one pass for each level of row reductions. A costly
// value that a later pass needs again is kept, a cheap one is computed again.
#pragma once

#include "codegen/families/rows/RowProgram.h"

#include "llvm/ADT/SetVector.h"

namespace kiln::rows {

struct Pass {
  llvm::SmallVector<Node*> reduces;         // row reductions whose input is complete here
  llvm::SmallVector<const Output*> outputs; // full results and sums; not row results
  llvm::SetVector<Node*> kept;              // computed here, read by later passes
  llvm::SetVector<Node*> columns;           // inputs read that are the same for all rows
  int operations = 0;                       // scalar instructions an element, roughly
  int columnOperations = 0;                 // those that are the same for all rows of a thread
  int erfs = 0;                             // error functions an element, among the operations
  int roots = 0;                            // and square roots
};

/// `keeps`: whether values can be kept at all.
std::vector<Pass> planPasses(const RowProgram& program, bool keeps = true);

/// Of a random number.
inline constexpr int kRandomOperations = 24;

/// Instructions an element, roughly, of a node that is computed.
int operationsOf(const Node* node);

/// Computed values of an element that wait for their last reader at once, at most.
int mostWaiting(const RowProgram& program);

} // namespace kiln::rows
