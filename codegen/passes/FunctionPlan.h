// What a fused function needs in memory: its buffers with layouts, the run-time sizes that must
// agree, and for each kernel its family's analysis. Shared by the passes that schedule, verify and
// lower.
#pragma once

#include "codegen/family/Family.h"
#include "codegen/passes/Passes.h"

namespace kiln::passes {

using family::FunctionPlan;

/// Fails with an error at the offending operation.
llvm::FailureOr<std::unique_ptr<FunctionPlan>> planFunction(mlir::func::FuncOp function);

/// Whether a kernel has a schedule of its family, if it takes any: an error at it otherwise.
llvm::LogicalResult hasSchedule(family::Kernel& kernel);

} // namespace kiln::passes
