// Functions over lists of tensors, divided into as few kernels as their sums allow.
// A list is a value of type tensor<?xT>, a shared number one of type tensor<T>.
#pragma once

#include "dialect/Kiln.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::segments {

/// Whether an argument of the function is marked as a list.
bool isOverLists(mlir::func::FuncOp function);

inline bool isList(mlir::Value value) {
  return ir::tensorType(value).getRank() == 1;
}

/// What the family cannot execute: an error at the argument, result or operation.
mlir::LogicalResult checkSignature(mlir::func::FuncOp function);
mlir::LogicalResult checkOperation(mlir::Operation& op);

/// Replaces the operations of the function by kernels, one after another. A sum is known only
/// after the kernel that takes it, so kernel k does what depends on k sums in a row, and hands the
/// numbers that later kernels need on to them. Lists are never handed on: a kernel computes what
/// it needs of them again, which costs no memory traffic, and only the last kernel stores lists.
/// So a result may take the place of an argument: all else that reads the argument ran before.
mlir::LogicalResult partition(mlir::func::FuncOp function);

} // namespace kiln::segments
