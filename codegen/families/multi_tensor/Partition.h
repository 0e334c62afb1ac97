// Functions over lists of tensors, divided into as few kernels as their sums allow.
// A list is a value of type tensor<?xT>, a shared number one of type tensor<T>.
#pragma once

#include "dialect/Kiln.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::multi_tensor {

/// Whether an argument of the function is marked as a list.
bool isOverLists(mlir::func::FuncOp function);

inline bool isList(mlir::Value value) {
  return ir::tensorType(value).getRank() == 1;
}

/// The part that each list of a block belongs to, from those of its arguments, by their number. An
/// error at the operation where lists of two parts meet.
llvm::FailureOr<llvm::DenseMap<mlir::Value, int>>
partsOf(mlir::Block& block, llvm::function_ref<int(unsigned)> ofArgument);

/// What the family cannot execute: an error at the argument, result or operation.
mlir::LogicalResult checkSignature(mlir::func::FuncOp function);
mlir::LogicalResult checkOperation(mlir::Operation& op);

/// Replaces the operations of the function by kernels, one after another. A sum is known only
/// after the kernel that takes it, so kernel k does what depends on k sums in a row, and hands the
/// numbers that later kernels need on to them. Lists are never handed on: a kernel computes what
/// it needs of them again, which costs no memory traffic, and only the last kernel stores lists.
/// So a list may take the place of an argument: all else that reads the argument ran before.
/// Results that are numbers and depend on no sum are known after the first kernel, if there are
/// several.
mlir::LogicalResult partition(mlir::func::FuncOp function);

} // namespace kiln::multi_tensor
