// A kernel of the row family: its analysis, and what it reads and writes.
#pragma once

#include "codegen/families/rows/RowProgram.h"
#include "codegen/families/rows/Schedule.h"
#include "codegen/family/Access.h"
#include "codegen/family/Family.h"

#include "mlir/IR/OwningOpRef.h"

namespace kiln::rows {

using family::Access;
using family::BufferInfo;
using family::Stride;

class RowKernel : public family::Kernel {
 public:
  /// `program` is the analysis of `body`, a copy of the kernel in elementary operations.
  RowKernel(ir::KernelOp op, mlir::OwningOpRef<ir::KernelOp> body,
            std::unique_ptr<RowProgram> program);

  llvm::LogicalResult unify(family::SizeClasses& sizes) override;
  void bind(const family::Binding& binding) override;
  const ScheduleForm* form() const override { return &scheduleForm; }
  std::unique_ptr<model::KernelModel> model(llvm::ArrayRef<int64_t> sizes) const override;
  void lower(mlir::ModuleOp module, LaunchPlan& plan) override;

  /// What the choice of the schedule depends on, read off the analysis and the buffers (Facts.cpp).
  Facts facts() const;

  std::unique_ptr<RowProgram> program;
  llvm::SmallVector<const BufferInfo*> inputs, outputs; // of the kernel op, in order
  llvm::SmallVector<bool> older;   // inputs that are older than the kernel's predecessor
  llvm::SmallVector<Extent> space; // leading dimensions of the iteration space

 private:
  void takeLentSizes();

  mlir::OwningOpRef<ir::KernelOp> body;
  llvm::SmallVector<std::optional<family::Dimension>> sizesOf; // of the space, in the function
};

} // namespace kiln::rows
