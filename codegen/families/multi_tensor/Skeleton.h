// Lowers one kernel over lists of tensors to exit operations: what all elements share, then the
// block's chunks element by element, then partial sums, which the last block adds up before it
// computes what depends on them. Lists of several parts share the launch: the first blocks work on
// the first part, and so on, so that each holds what its part needs and no more. Where nothing but
// sums is asked for, the blocks are as many as fit and work on all parts.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "codegen/families/multi_tensor/Schedule.h"
#include "dialect/Kiln.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace kiln::multi_tensor {

/// Where a kernel finds an input or leaves a result.
struct Place {
  int list = -1;    // its pointer in the records of its part's table; -1: it has no dimensions
  std::string name; // of the list, or of the buffer in the launch plan
  int part = 0;     // of a list
};

/// The table of one part of the function: its two buffers in the launch plan.
struct Table {
  std::string chunks, segments;
  Extent chunkCount;
  int lists = 0; // pointers in a record
};

struct KernelContext {
  std::string name;
  mlir::Block* body = nullptr; // elementary operations
  Schedule schedule;
  Facts facts;
  llvm::SmallVector<Place> inputs, outputs;
  llvm::ArrayRef<Table> tables;        // by part
  std::string counter;                 // of blocks, where sums are taken
  std::map<int, std::int64_t> vectors; // elements that a thread moves, by the parts with lists here
};

/// Appends the kernel to the end of `module` and to the plan.
void lowerKernel(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

} // namespace kiln::multi_tensor
