// What a fused function needs in memory: its buffers with layouts, the run-time sizes that must
// agree, and for each kernel its analysis. Shared by the passes that schedule, verify and lower.
#pragma once

#include "codegen/passes/Passes.h"
#include "codegen/rows/Access.h"
#include "codegen/sums/RowSum.h"

#include <deque>
#include <set>

namespace kiln::passes {

struct PlannedKernel {
  ir::KernelOp op;
  mlir::OwningOpRef<ir::KernelOp> body;      // a copy, in elementary operations
  std::unique_ptr<rows::RowProgram> program; // of the copy; null: a sum of rows
  std::optional<sums::RowSum> sum;           // of the copy, then
  llvm::SmallVector<const rows::BufferInfo*> inputs, outputs;
  llvm::SmallVector<bool> older;   // inputs that are older than the kernel's predecessor
  llvm::SmallVector<Extent> space; // leading dimensions; none of a sum of rows

  bool takesSchedule() const { return program != nullptr; }
};

struct FunctionPlan {
  std::deque<rows::BufferInfo> buffers;
  std::vector<PlannedKernel> kernels;
  LaunchPlan launch; // function, inputs, outputs, intermediate workspaces; no kernels yet
};

/// Names of buffers: each is given once, with a number behind it if it was wanted before, or is
/// that of a kernel's partial sums.
class BufferNames {
 public:
  explicit BufferNames(mlir::func::FuncOp function);
  std::string unique(llvm::StringRef wanted);

 private:
  std::set<std::string> given;
};
/// What a kernel's entry point is called. Its prefix keeps it apart from C++, from CUDA's built-in
/// functions and from the device library.
std::string entryName(llvm::StringRef kernel);
/// The name that the attributes of an argument or result give it.
llvm::StringRef nameAttr(mlir::DictionaryAttr attributes, llvm::StringRef fallback);

/// A tensor in memory, not named yet; `extent` tells the size along a dimension.
rows::BufferInfo describeBuffer(mlir::Value value, ir::LayoutAttr layout,
                                llvm::function_ref<Extent(int64_t)> extent);

/// Fails with an error at the offending operation.
llvm::FailureOr<std::unique_ptr<FunctionPlan>> planFunction(mlir::func::FuncOp function);

/// The copy of a kernel in elementary operations, with equal ones merged.
mlir::OwningOpRef<ir::KernelOp> elementaryCopy(ir::KernelOp kernel);

/// Of a kernel of the row family.
rows::Facts factsOf(const PlannedKernel& kernel);

DType dtypeOf(mlir::Type element);
/// Bytes of a tensor; run-time sizes count as a typical number of rows.
double bytesOf(mlir::Value value);
rows::Schedule scheduleOf(ir::ScheduleAttr attribute);
ir::ScheduleAttr scheduleAttr(mlir::MLIRContext* context, const rows::Schedule& schedule);

} // namespace kiln::passes
