// What a function must look like before its operations are grouped into kernels.
#pragma once

#include "codegen/backend/Target.h"
#include "dialect/Kiln.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <list>
#include <string>

namespace kiln::family {

/// Operations of one future kernel.
using Group = llvm::SetVector<mlir::Operation*>;

/// Cheaper to make than to load, and not asked to be stored: copied to wherever it is used.
bool isRematerializable(mlir::Operation* op);
/// Users, looking through free operations.
void eachUser(mlir::Value value, llvm::function_ref<void(mlir::Operation*)> visit);

/// Makes `value` available inside `kernel`, copying what is rematerializable. `builder` stands
/// there.
mlir::Value capture(mlir::OpBuilder& builder, mlir::Value value, ir::KernelOp kernel,
                    mlir::IRMapping& map);

class FusionPreparation {
 public:
  FusionPreparation(mlir::func::FuncOp function, const Target& target)
      : function(function), target(target), block(function.getBody().front()),
        builder(function.getContext()) {}

  /// Gives every result, and what families ask for, what it needs to be a kernel's own. Returns the
  /// groups that stay as they are, which no other operation joins.
  std::list<Group> run();

  // For families that prepare their anchors.
  const mlir::func::FuncOp function;
  const Target& target;
  mlir::Block& block;
  mlir::OpBuilder builder;
  /// A new group that stays as it is.
  Group& alone() { return groups.emplace_back(); }
  /// A kernel, where the builder stands, that writes what `operand` reads.
  void copyInto(mlir::OpOperand& operand, const std::string& suffix);

 private:
  void absorbIntoKernels();
  void copyReturned();

  std::list<Group> groups;
};

} // namespace kiln::family
