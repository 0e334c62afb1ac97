// The gradients that reverse-mode differentiation has gathered so far. Rules read the gradients
// of an operation's results and add to those of its operands; everything is kept in fp32.
#pragma once

#include "dialect/Math.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace kiln::ir {

class Gradient {
 public:
  /// `wanted`: the values whose gradient somebody needs.
  Gradient(MathBuilder& math, const llvm::DenseSet<mlir::Value>& wanted)
      : math(math), wanted_(wanted) {}

  /// The gradient of a result in fp32, or null if nothing depends on it.
  mlir::Value of(mlir::Value result) const { return gradients_.lookup(result); }
  bool wants(mlir::Value operand) const { return operand && wanted_.contains(operand); }
  /// Adds `gradient` (the shape of `operand`, fp32) unless nobody wants it.
  void add(mlir::Value operand, mlir::Value gradient);

  MathBuilder& math;

 private:
  const llvm::DenseSet<mlir::Value>& wanted_;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients_;
};

/// Applies the rule of `op`, a kiln or a scalar operation; fails with an error at the op if
/// it has none.
llvm::LogicalResult differentiate(mlir::Operation* op, Gradient& gradient);

} // namespace kiln::ir
