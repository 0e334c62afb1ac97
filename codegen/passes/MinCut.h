// Which values of a forward to save for its backward: the cheapest cut, by bytes, between what
// is there anyway and what the backward reads (maximum flow by shortest augmenting paths,
// Edmonds and Karp 1972).
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"

namespace kiln::passes {

struct CutProblem {
  /// Values that the backward reads.
  llvm::SetVector<mlir::Value> needed;
  /// Bytes that saving and reading a value costs.
  llvm::function_ref<double(mlir::Value)> cost;
  /// Values that cannot be computed again from others: arguments, row reductions.
  llvm::function_ref<bool(mlir::Value)> isSource;
};

/// The values to save, in no particular order.
llvm::SetVector<mlir::Value> cheapestCut(const CutProblem& problem);

} // namespace kiln::passes
