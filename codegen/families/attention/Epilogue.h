// What a kernel computes of attention's output before it stores it: elementwise math, as kernels of
// rows have it, of the output, of tensors of its shape and of what is broadcast to it.
#pragma once

#include "codegen/families/rows/RowProgram.h"

#include "mlir/IR/OwningOpRef.h"

namespace kiln::attention {

struct Epilogue {
  struct Result {
    unsigned number; // of the kernel
    std::unique_ptr<rows::RowProgram> program;
    llvm::SmallVector<int> ofOutput; // dimension of the program's space -> of attention's output

    const rows::Output& output() const { return program->outputs.front(); }
    /// Through which dimensions of attention's output a value is seen that has `map`.
    llvm::SmallVector<int> toOutput(llvm::ArrayRef<int> map) const;
  };
  /// The kernel without its attention, whose output is the last argument.
  mlir::OwningOpRef<ir::KernelOp> body;
  std::vector<Result> results;

  bool isOutput(mlir::Value value) const;
  /// Of an element of all results: operations, and tensors that are read, but for single numbers.
  int operations() const;
  int tensors() const;
};

/// Of a kernel that computes `attention`; null: the refusal says why not.
std::shared_ptr<const Epilogue> analyzeEpilogue(ir::KernelOp kernel, ir::AttentionOp attention,
                                                family::Refusal& refusal);

} // namespace kiln::attention
