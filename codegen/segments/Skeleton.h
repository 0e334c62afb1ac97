// Lowers one kernel over lists of tensors to exit operations: what all elements share, then the
// block's chunks element by element, then partial sums; and a kernel of one block that adds these
// up and computes what depends on them.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "dialect/Kiln.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::segments {

/// Where a kernel finds an input or leaves a result.
struct Place {
  int list = -1;    // its pointer in the records of the table; -1: it has no dimensions
  std::string name; // of the list, or of the buffer in the launch plan
};

struct KernelContext {
  std::string name;
  mlir::Block* body = nullptr; // elementary operations
  ir::ScheduleAttr schedule;
  llvm::SmallVector<Place> inputs, outputs;
  int lists = 0;                // pointers in a record
  std::string chunks, segments; // the parts of the table in the launch plan
  Extent chunkCount;
};

/// Appends the kernel, and the one that finishes its sums if it has any or computes numbers, to
/// the end of `module` and to the plan.
void lowerKernel(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

} // namespace kiln::segments
