// From an operation to its node: how a value depends on row and column, and what it is computed
// from. One class for a kernel, so that a value that is reached twice the same way is one node.
#pragma once

#include "codegen/families/rows/RowProgram.h"

#include <map>
#include <optional>

namespace kiln::rows {

bool isOverEverything(ir::ReduceOp reduce);

/// What a reduction over the rows of a space sums up; nothing for other reductions and for null.
std::optional<Output::Kind> sumOverRows(ir::ReduceOp reduce, llvm::ArrayRef<int64_t> space);

/// The node's value, or the tensor whose sizes it has; null: none has.
mlir::Value shapeSource(const Node& node);
/// Rounding to the type stored happens in the store.
Node* beforeRounding(Node* n);
/// The tensor operation on single elements, where the builder stands.
mlir::Value scalarOp(mlir::OpBuilder& builder, Node* node,
                     llvm::function_ref<mlir::Value(Node*)> operand);
/// The number that all elements of a constant are.
mlir::Value scalarConstant(mlir::OpBuilder& builder, Node* node);

/// Dimensions as they are.
llvm::SmallVector<int> identity(size_t rank);

class Nodes {
 public:
  /// Appends to the nodes of `program`, whose space is known; tells `refusal` why it could not.
  Nodes(mlir::Block& block, RowProgram& program, Refusal& refusal)
      : block(block), program(program), refusal(refusal) {}

  /// The node of `value` seen through `map`, at the columns' partners if there are `pairs`; null
  /// after a refusal. `user` is for the message.
  Node* find(mlir::Value value, llvm::SmallVector<int> map, mlir::Operation* user,
             ir::PairsAttr pairs = {});

 private:
  Node* throughTranspose(ir::TransposeOp op, llvm::ArrayRef<int> map, ir::PairsAttr pairs);
  /// What is computed of partners is computed at the partner of each column.
  Node* throughPartner(ir::PartnerOp op, llvm::ArrayRef<int> map, ir::PairsAttr pairs);
  /// The first operation that gives the same numbers: `like` has no part in them. A forward that is
  /// computed again shares them with its backward.
  mlir::Value firstLike(ir::RandomOp op);
  bool fill(Node& n, mlir::Operation* user);
  void dependOnMap(Node& n);
  /// Reached like an input, through its map; one number for all is taken once a row.
  bool fillRandom(Node& n, ir::RandomOp op);
  /// Of rows that are read, by an index that is read; decomposeNamedOps replaced all others.
  bool fillPick(Node& n, ir::PickOp op);
  /// Rows of a table in memory, by a value of each row.
  bool fillGather(Node& n, ir::GatherOp op);
  /// A broadcast is only another map of its input.
  llvm::SmallVector<int> throughBroadcast(ir::BroadcastOp op, llvm::ArrayRef<int> map);
  /// Rows are walked by one number; it is an index where there is one leading dimension.
  bool fillIndex(Node& n, ir::IndexOp op);
  bool fillReduce(Node& n, ir::ReduceOp op, mlir::Operation* user);

  mlir::Block& block;
  RowProgram& program;
  Refusal& refusal;
  std::map<std::tuple<const void*, llvm::SmallVector<int>, const void*>, Node*> known;
};

} // namespace kiln::rows
