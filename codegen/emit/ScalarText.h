// The CUDA text of upstream's scalar operations, one line each.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

struct ScalarText {
  llvm::StringLiteral name;
  /// $0, $1, $2: operands; $t: the result's type; $p: the predicate's operator.
  llvm::StringLiteral text;
  int precedence; // of the whole; operands bind tighter
  /// Of an operation that is many instructions: the call of a function that is the same and stands
  /// outside the kernel (Outlines.h). Empty: there is none.
  llvm::StringLiteral outlined = "";
};

inline constexpr int kPrimary = 16; // names, calls, literals

llvm::ArrayRef<ScalarText> scalarTexts();
const ScalarText* findScalarText(llvm::StringRef name);
/// The text of one operation, which kiln-lower let pass: that of its name, but a comparison has
/// the operator of its predicate, and a product may be one that is rounded by itself.
ScalarText scalarText(mlir::Operation* op);
/// A constant as a literal that reads back exactly.
std::string literalText(mlir::Attribute value);

} // namespace kiln
