// What a fused function over lists of tensors needs in memory, and its kernels in elementary
// operations. Shared by the passes that schedule, verify and lower.
#pragma once

#include "codegen/passes/Passes.h"
#include "codegen/segments/Schedule.h"
#include "codegen/segments/Skeleton.h"

#include <map>

namespace kiln::passes {

struct ListKernel {
  ir::KernelOp op;
  mlir::OwningOpRef<ir::KernelOp> body; // a copy, in elementary operations
  llvm::SmallVector<segments::Place> inputs, outputs;
  segments::Facts facts;
  std::map<int, int> widestBytes; // of an element, by the parts that it works on

  bool takesSchedule() const { return true; }
};

struct ListPlan {
  std::vector<ListKernel> kernels;
  llvm::SmallVector<segments::Table> tables; // by part
  LaunchPlan launch;                         // all but the kernels and their partial sums
};

/// Fails with an error at the offending operation.
llvm::FailureOr<std::unique_ptr<ListPlan>> planLists(mlir::func::FuncOp function);

} // namespace kiln::passes
