// Prints exit operations as CUDA text. Read-only: it names values, indents, inlines expressions
// that are used once, and decides nothing else. Operations print themselves through it.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kiln {

class Outlines;

/// A line of comment with text from outside, which never looks like the launch plan's line.
std::string commentLine(llvm::StringRef text);

class Emitter {
 public:
  Emitter(llvm::raw_ostream& out, const Outlines& outlines);

  /// Prints the operations of a block: exit operations by themselves, scalar ones as constants
  /// or, if used once, inside the expression that uses them.
  void block(mlir::Block& block);

  // Names. A value's name comes from the source where it had one, else from `hint`, and gets a
  // number if it is taken.
  std::string declare(mlir::Value value, llvm::StringRef hint);
  std::string fresh(llvm::StringRef hint);
  void alias(mlir::Value value, std::string text) { names_[value] = std::move(text); }
  std::string name(mlir::Value value);
  /// The text of a scalar value: its name, a literal, or an inlined expression.
  std::string expression(mlir::Value value, int precedence = 0);
  /// Where an operation inside a loop puts its element.
  void aliasTarget(mlir::Operation* op, std::string text) { targets_[op] = std::move(text); }
  std::string target(mlir::Operation* op) const { return targets_.lookup(op); }

  std::string memoryType(mlir::Type type); // as stored: bool is u8
  std::string scalarType(mlir::Type type); // as computed with

  // Lines, indented by the open braces.
  void line(const std::string& text); // broken at commas and operators if too long
  void open(const std::string& head);
  void unrolled(const std::string& head, int times = 0); // 0: all of it
  void close(const std::string& after = "");             // text behind the brace
  /// A comment with the place in the source, unless the last one said the same.
  void location(mlir::Operation* op);

 private:
  bool inlined(mlir::Operation& op);
  std::string text(mlir::Operation* op, int precedence);

  llvm::raw_ostream& out_;
  const Outlines& outlines_;
  int depth_ = 0;
  std::string lastLocation_;
  llvm::DenseMap<mlir::Value, std::string> names_;
  llvm::DenseMap<mlir::Operation*, std::string> targets_;
  llvm::DenseMap<mlir::Operation*, int> depths_; // of inlined expressions
  llvm::StringSet<> taken_;
};

} // namespace kiln
