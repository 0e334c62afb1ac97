// Of a forward and its backward in one block: what the backward reads of the forward, rather than
// computes it again. The cut is the one that moves the fewest bytes.
#pragma once

#include "mlir/IR/Block.h"
#include "llvm/ADT/SmallVector.h"

namespace kiln::passes {

/// Arguments and values of `block` in its order. `results` are the forward's; an operation is the
/// backward's if it depends on one of the `cotangents`, which leads to `gradients`. Where a value
/// only lends the backward its shape, an argument of that shape may take its place there.
llvm::SmallVector<mlir::Value> chooseSaved(mlir::Block& block, llvm::ArrayRef<mlir::Value> results,
                                           llvm::ArrayRef<mlir::Value> cotangents,
                                           llvm::ArrayRef<mlir::Value> gradients);

} // namespace kiln::passes
