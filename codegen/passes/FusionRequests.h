// What kiln-fuse must know of single operations before it weighs any merge: which are free, and
// what the text asks for: results that are always stored (`kiln.cut`), operations that must be in
// one kernel (`kiln.fuse`).
#pragma once

#include "codegen/family/FusionPreparation.h"
#include "codegen/passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace kiln::passes {

using family::eachUser;
using family::Group;
using family::isRematerializable;

/// An operation whose results are to be stored, and one that reads them.
struct Cut {
  mlir::Operation *maker, *user;
};
/// A cut that the group would cross.
std::optional<Cut> cutWithin(const Group& group);

/// Elementwise, with one result, and nothing is asked of it.
bool isPlainElementwise(mlir::Operation* op);

/// By name, what must be in one kernel; fails with an error at an operation that cannot be asked.
llvm::FailureOr<llvm::MapVector<mlir::StringAttr, Group>>
requestedGroups(mlir::func::FuncOp function);
/// Fails at an operation that asks for something, in a function whose kernels are not weighed.
llvm::LogicalResult refuseRequests(mlir::func::FuncOp function);
/// Of an operation that is about to be in its kernel, or in a derived function.
void clearRequests(mlir::Operation* op);

} // namespace kiln::passes
