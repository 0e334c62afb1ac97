// How much one kernel takes. What the family could execute may still be too much: for the registers
// and the shared memory of a multiprocessor under any schedule, or for a compiler that should be
// done in a second.
#pragma once

#include "codegen/backend/Target.h"
#include "codegen/passes/Passes.h"
#include "codegen/rows/RowProgram.h"

namespace kiln::passes {

/// Of what a kernel computes, values of one element that wait for their last reader, each in a
/// register.
inline constexpr int kMostWaiting = 96;
/// Tensors that one kernel reads and writes.
inline constexpr size_t kMostTensors = 64;

/// A kernel that is being considered.
struct Considered {
  mlir::func::FuncOp function;
  ir::KernelOp kernel;                         // in elementary operations
  mlir::ArrayRef<mlir::Value> inputs, results; // in the function
  std::unique_ptr<rows::RowProgram> program;   // of the kernel
};

/// Why it is too much for one kernel of the target, with the numbers; empty: it is not. `most`:
/// operations. More take as long in two kernels: they take longer than the bytes between them.
std::string tooMuch(Considered considered, int most, const Target& target);

} // namespace kiln::passes
