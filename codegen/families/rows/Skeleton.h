// Lowers one kernel of the row family to exit operations: load the tile, then one pass over it
// for each level of row reductions, each pass ending in an exchange between lanes.
#pragma once

#include "codegen/families/rows/Kernel.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::rows {

struct KernelContext {
  std::string name;
  const RowProgram& program;
  Schedule schedule;
  llvm::SmallVector<const BufferInfo*> inputs; // of the kernel op, in order
  llvm::SmallVector<const BufferInfo*> outputs;
  llvm::SmallVector<bool> older;   // inputs that are older than the kernel's predecessor
  llvm::SmallVector<Extent> space; // leading dimensions of the iteration space
  bool isSteady;                   // the rows of a thread are shifted alike (Facts::isSteady)
  bool isLoose;                    // tiles begin and end anywhere (Facts::isLoose)
  bool holdsColumns;               // threads hold their columns of weights (Facts::holdsColumns)
};

/// Appends the kernel, and the kernel that finishes its column sums if it has any, to the end of
/// `module` and to the plan.
void lowerKernel(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

/// The kernel that adds up partial sums: threads of a block, blocks that must fit on a
/// multiprocessor, and columns of a block.
struct FinishShape {
  int threads, blocks, columns;
};

} // namespace kiln::rows
