// An attention kernel of a function: its sizes, its buffers, and how it is lowered.
#pragma once

#include "codegen/families/attention/Attention.h"
#include "codegen/family/Family.h"

namespace kiln::attention {

class AttentionKernel : public family::Kernel {
 public:
  AttentionKernel(ir::KernelOp op, Program program) : Kernel(op), program(std::move(program)) {}

  llvm::LogicalResult unify(family::SizeClasses& sizes) override;
  void bind(const family::Binding& binding) override;
  const ScheduleForm* form() const override { return &scheduleForm; }
  std::unique_ptr<model::KernelModel> model(llvm::ArrayRef<int64_t> sizes) const override;
  void lower(mlir::ModuleOp module, LaunchPlan& plan) override;

 private:
  mlir::Value input(mlir::Value argument) {
    return op.getInputs()[mlir::cast<mlir::BlockArgument>(argument).getArgNumber()];
  }
  const TensorInfo& bufferOf(mlir::Value argument) const {
    return inputs[mlir::cast<mlir::BlockArgument>(argument).getArgNumber()]->tensor;
  }
  void unifyEpilogue(family::SizeClasses& sizes);
  void countEpilogue(Facts& facts) const;
  Facts factsOf(llvm::ArrayRef<int64_t> sizes) const;
  SizeProduct multiplyAdds() const;

  Program program;
  llvm::SmallVector<const family::BufferInfo*> inputs, outputs;
};

} // namespace kiln::attention
