// What kiln-fuse must know of single operations before it weighs any merge: which are free, and
// what the text asks for: results that are always stored (`kiln.cut`), operations that must be in
// one kernel (`kiln.fuse`).
#pragma once

#include "codegen/passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace kiln::passes {

/// Operations of one future kernel.
using Group = llvm::SetVector<mlir::Operation*>;

/// Cheaper to make than to load, and not asked to be stored: copied to wherever it is used.
bool isFree(mlir::Operation* op);
/// Users, looking through free operations.
void eachUser(mlir::Value value, llvm::function_ref<void(mlir::Operation*)> visit);

/// An operation whose results are to be stored, and one that reads them.
struct Cut {
  mlir::Operation *maker, *user;
};
/// A cut that the group would cross.
std::optional<Cut> cutWithin(const Group& group);

/// By name, what must be in one kernel; fails with an error at an operation that cannot be asked.
llvm::FailureOr<llvm::MapVector<mlir::StringAttr, Group>>
requestedGroups(mlir::func::FuncOp function);
/// Fails at an operation that asks for something, in a function whose kernels are not weighed.
llvm::LogicalResult refuseRequests(mlir::func::FuncOp function);
/// Of an operation that is about to be in its kernel, or in a derived function.
void clearRequests(mlir::Operation* op);

} // namespace kiln::passes
