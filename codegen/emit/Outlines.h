// Functions outside the kernels of a text: a kernel with many scalar operations of many
// instructions each calls them, since compiling it takes longer than its user waits otherwise. The
// numbers are the same. In other kernels every instruction stands in its place, which runs faster.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln {

class Outlines {
 public:
  /// Of a module of exit operations.
  explicit Outlines(mlir::ModuleOp module);

  /// The definitions of all that kernels call, each once.
  void print(llvm::raw_ostream& out) const;
  /// The call that stands for an operation, $0 and $1 its operands; empty: none does.
  llvm::StringRef callOf(mlir::Operation* op) const { return calls_.lookup(op); }
  /// Of the functions.
  llvm::SmallVector<llvm::StringRef> names() const;

 private:
  llvm::DenseMap<mlir::Operation*, llvm::StringRef> calls_;
  llvm::MapVector<llvm::StringRef, llvm::StringRef> texts_; // what a call computes
};

} // namespace kiln
