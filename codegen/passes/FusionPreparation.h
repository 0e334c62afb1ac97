// What a function must look like before its operations are grouped into kernels.
#pragma once

#include "codegen/passes/FusionRequests.h"

#include "mlir/IR/IRMapping.h"

#include <list>

namespace kiln::passes {

/// Makes `value` available inside `kernel`, copying what is free. `builder` stands there.
mlir::Value capture(mlir::OpBuilder& builder, mlir::Value value, ir::KernelOp kernel,
                    mlir::IRMapping& map);

/// Gives every result and every sum of rows what it needs to be a kernel's own, and returns the
/// groups that stay as they are: sums of rows, which no other operation joins.
std::list<Group> prepareFusion(mlir::func::FuncOp function);

} // namespace kiln::passes
