// See Saved.h.
#include "codegen/passes/Saved.h"

#include "codegen/family/Buffers.h"
#include "codegen/passes/MinCut.h"
#include "dialect/Kiln.h"

using namespace mlir;

namespace kiln::passes {
namespace {

/// Whether the operand only lends its shape.
bool isShape(OpOperand& use) {
  return isa<ir::IndexOp>(use.getOwner()) ||
         (isa<ir::BroadcastOp>(use.getOwner()) && use.getOperandNumber() == 1);
}

/// The argument that elementwise operations lead to from a value: it has its shape.
Value argumentLike(Value value) {
  SmallVector<Value> ahead = {value};
  llvm::DenseSet<Value> seen;
  while (!ahead.empty()) {
    Value next = ahead.pop_back_val();
    if (!next.getDefiningOp())
      return next;
    if (seen.insert(next).second && OpTrait::hasElementwiseMappableTraits(next.getDefiningOp()))
      llvm::append_range(ahead, next.getDefiningOp()->getOperands());
  }
  return {};
}

/// The cut. A value that only lends the backward its shape is not needed where an argument of
/// that shape is there anyway, which then takes its place.
llvm::SetVector<Value> cutWithoutShapes(CutProblem& problem, ArrayRef<OpOperand*> shapes) {
  llvm::SetVector<Value> cut;
  auto isThere = [&](Value value) { return value && cut.contains(value); };
  for (size_t before = ~size_t(0); problem.needed.size() != before;) {
    before = problem.needed.size();
    cut = cheapestCut(problem);
    for (OpOperand* shape : shapes) // another cut may have other arguments
      if (!isThere(shape->get()) && !isThere(argumentLike(shape->get())))
        problem.needed.insert(shape->get());
  }
  for (OpOperand* shape : shapes) {
    Value argument = argumentLike(shape->get());
    if (isThere(argument) && !problem.needed.contains(shape->get()))
      shape->set(argument);
  }
  return cut;
}

/// Arguments, reductions and what says so of itself: these are never computed again.
bool isSourceOf(Value value) {
  auto named = value.getDefiningOp<ir::KilnOpInterface>();
  return !value.getDefiningOp() || value.getDefiningOp<ir::ReduceOp>() ||
         (named && named.isSaved());
}

} // namespace

/// An operation is the backward's if it depends on a cotangent.
llvm::SmallVector<Value> chooseSaved(Block& block, ArrayRef<Value> results,
                                     ArrayRef<Value> cotangents, ArrayRef<Value> gradients) {
  llvm::DenseSet<Value> backward(cotangents.begin(), cotangents.end());
  CutProblem problem{{}, {}, {}};
  for (Operation& op : block.without_terminator()) {
    bool late = llvm::any_of(op.getOperands(), [&](Value v) { return backward.contains(v); });
    if (late)
      backward.insert(op.getResults().begin(), op.getResults().end());
  }
  auto need = [&](Value value) {
    if (!backward.contains(value))
      problem.needed.insert(value);
  };
  SmallVector<OpOperand*> shapes;
  for (Operation& op : block.without_terminator())
    if (op.getNumResults() && backward.contains(op.getResult(0)))
      for (OpOperand& operand : op.getOpOperands()) {
        if (!isShape(operand))
          need(operand.get());
        else if (!backward.contains(operand.get()))
          shapes.push_back(&operand);
      }
  for (Value gradient : gradients)
    need(gradient);
  llvm::DenseSet<Value> far = farFromSources(block, backward, isSourceOf);
  auto isSource = [&](Value value) { return isSourceOf(value) || far.contains(value); };
  auto cost = [&](Value value) { // saving costs a write, reading is paid by all
    bool there = !value.getDefiningOp() || llvm::is_contained(results, value);
    return family::bytesOf(value) * (there ? 1.0 : 2.0);
  };
  problem.isSource = isSource;
  problem.cost = cost;
  llvm::SetVector<Value> cut = cutWithoutShapes(problem, shapes);
  llvm::SmallVector<Value> saved;
  for (BlockArgument argument : block.getArguments())
    if (cut.contains(argument))
      saved.push_back(argument);
  for (Operation& op : block)
    for (Value result : op.getResults())
      if (cut.contains(result))
        saved.push_back(result);
  return saved;
}

} // namespace kiln::passes
