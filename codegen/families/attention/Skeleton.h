// Lowers a kernel of attention to exit operations and launches.
#pragma once

#include "codegen/families/attention/Attention.h"
#include "codegen/family/Buffers.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::attention {

struct KernelContext {
  std::string name;       // of the entry
  std::string workspaces; // how their names begin; kernels of some of the queries each share them
  const Program& program;
  const Facts& facts;
  const Schedule schedule;
  llvm::ArrayRef<const family::BufferInfo*> inputs, outputs;
  ir::ScheduleAttr scheduleAttr;
};

/// Heads that share one bias, of a gradient of it; 0: as many as are known at run time.
int64_t sharingOf(const Program& program, llvm::ArrayRef<const family::BufferInfo*> inputs);

void lowerKernel(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

} // namespace kiln::attention
