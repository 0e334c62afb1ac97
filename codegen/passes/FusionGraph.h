// The groups of a function while kiln-fuse merges them: who belongs to which, and which wait for
// which. A merge is answered from what is known of both, not by walking over the function.
#pragma once

#include "codegen/passes/FusionRequests.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

#include <list>

namespace kiln::passes {

class FusionGraph {
 public:
  /// `groups` hold every operation of the block but free ones, its end and kernels written by hand;
  /// each is convex. They stay the caller's list, whose elements only merge() changes.
  FusionGraph(mlir::Block& block, std::list<Group>& groups);

  /// What an operation reads, looking through free operations; once each.
  llvm::ArrayRef<mlir::Value> reads(mlir::Operation* op) const { return reads_.at(op); }
  /// Null: a kernel written by hand, an argument, or what is free.
  Group* groupOf(mlir::Operation* op) const;
  /// Whether no value would leave the two and come back.
  bool mayMerge(const Group* a, const Group* b) const;
  /// `a` becomes both, in its place in the list; `b` is no more.
  void merge(Group* a, Group* b);

 private:
  unsigned nodeOf(mlir::Operation* op) const { return nodes_.lookup(op); }
  bool comesBack(unsigned from, unsigned to) const;
  void connect(mlir::Block& block);

  std::list<Group>& groups_;
  std::vector<Group*> groupOfNode_; // null: a kernel written by hand
  llvm::DenseMap<mlir::Operation*, unsigned> nodes_;
  llvm::DenseMap<mlir::Operation*, llvm::SmallVector<mlir::Value, 2>> reads_;
  std::vector<llvm::BitVector> next_;  // nodes that read what a node makes
  std::vector<llvm::BitVector> after_; // and those that wait for these
};

} // namespace kiln::passes
