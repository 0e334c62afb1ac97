// Lowers one sum of rows to exit operations: a kernel, before it one that lists the rows of
// segments, and, where terms are divided into parts, a last one that adds the parts.
#pragma once

#include "codegen/families/row_sums/RowSum.h"
#include "codegen/family/Access.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::row_sums {

struct KernelContext {
  std::string name;
  RowSum sum;
  const family::BufferInfo *rows = nullptr, *index = nullptr, *output = nullptr;
  mlir::Type outputElement;
  bool programmatic = false;
};

/// Appends the kernels to the end of `module` and to the plan.
void lowerKernel(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

} // namespace kiln::row_sums
