// One entry point under construction: its arguments by name, the operations in it, and its place
// in the launch plan.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "codegen/exit/Exit.h"

namespace kiln::cu {

class Entry {
 public:
  /// `header`: the part of the device library that the kernel is made of.
  Entry(mlir::OpBuilder& builder, mlir::Location location, const std::string& name,
        std::int64_t threads, std::int64_t blocks, ir::ScheduleAttr schedule,
        llvm::StringRef header);

  mlir::Value argument(const KernelArgument& what, mlir::Type type, const std::string& name);
  mlir::Value pointer(const std::string& buffer, mlir::Type element);
  mlir::Value tensorMap(const std::string& buffer, TensorMapInfo map);
  /// A product of sizes: a constant where they are known, else an argument.
  mlir::Value size(KernelArgument::Kind kind, llvm::ArrayRef<Extent> factors,
                   const std::string& name);

  /// The operation, for what only some families say of it.
  KernelOp op() { return kernel; }

  void waitThenRelease(bool programmatic);
  /// Appends the kernel to the plan; the builder goes on behind it.
  void finish(LaunchPlan& plan);

  KernelLaunch launch;
  mlir::OpBuilder& builder;
  const mlir::Location location;

 private:
  KernelOp kernel;
  mlir::Block* block = nullptr;
  std::vector<std::string> names;
};

} // namespace kiln::cu
