// Which values of a forward to save for its backward: the cheapest cut, by bytes, between what
// is there anyway and what the backward reads (maximum flow by shortest augmenting paths,
// Edmonds and Karp 1972).
#pragma once

#include "mlir/IR/Block.h"
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

/// Values of a forward that stand at the end of too many steps from its sources for one kernel to
/// compute them all again and hold what the backward reads, with more to follow: sources as well,
/// from which steps are counted anew. `backward`: values of the block that are not the forward's.
llvm::DenseSet<mlir::Value> farFromSources(mlir::Block& block,
                                           const llvm::DenseSet<mlir::Value>& backward,
                                           llvm::function_ref<bool(mlir::Value)> isSource);

} // namespace kiln::passes
