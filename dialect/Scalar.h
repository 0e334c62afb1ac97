// Upstream's scalar operations (arith, math) that kernels may use, one line each: the fp64
// reference and the gradient rule. Their CUDA text is in codegen/emit/ScalarText.cpp; a test
// holds the two lists against each other.
#pragma once

#include "dialect/Gradient.h"

namespace kiln::ir {

struct ScalarOp {
  llvm::StringLiteral name;
  double (*reference)(mlir::Operation* op, const double* operands);
  /// Null: the operation has no gradient. Operations on integers and comparisons have an empty one.
  void (*gradient)(mlir::Operation* op, Gradient& gradient);
};

llvm::ArrayRef<ScalarOp> scalarOps();
const ScalarOp* findScalarOp(llvm::StringRef name);

} // namespace kiln::ir
