// The largest element of a row and the sum of exp(element - largest), in one pass over a tile that
// still arrives in shared memory. Each thread's sum refers to its own largest element until the
// row's is known. See Lowering.h and codegen/device/online.cuh.
#include "codegen/families/rows/Lowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace kiln::rows {

/// Parts of a row: one is worked on while the next arrives.
static constexpr int64_t kParts = 2;

static bool isReduction(const Node* node, ir::ReduceKind kind) {
  return node->kind == Node::Kind::rowReduce && cast<ir::ReduceOp>(node->op()).getKind() == kind;
}

/// Whether a reduction is the sum of exp(x - m), where `largest` is m, that of the kept tile x.
bool Lowering::sumsExponentials(Node* reduce, Node* largest) const {
  Node* node = reduce->operands[0];
  auto exp = dyn_cast_or_null<math::ExpOp>(node->op());
  if (!isReduction(reduce, ir::ReduceKind::sum) || !exp ||
      exp.getFastmath() == arith::FastMathFlags::none)
    return false;
  Node* difference = node->operands[0];
  return isa_and_nonnull<arith::SubFOp>(difference->op()) && difference->operands[1] == largest &&
         fragments.lookup(beforeWidening(difference->operands[0])) == extremeOf(largest);
}

/// Whether elements are results, or are reduced in a third pass; or there is no second.
bool Lowering::needsElementsAgain() const {
  for (auto [level, pass] : llvm::enumerate(passes))
    if (!pass.outputs.empty() || (level > 1 && !pass.reduces.empty()))
      return true;
  return passes.size() < 2;
}

/// Only a tile that is loaded alone may be awaited in parts, and only the first pass still waits.
/// Where the elements are needed again for a result, that takes the time, and nothing is gained.
bool Lowering::emitOnline(Pass& pass) {
  if (&pass != &passes.front() || pass.reduces.size() != 1 || !pass.kept.empty() || !awaited ||
      fragments.size() != 1 || !columns.empty() || needsElementsAgain())
    return false;
  Node* largest = pass.reduces.front();
  auto load = fragments.begin()->second.getDefiningOp<cu::LoadOp>();
  if (!load || !isReduction(largest, ir::ReduceKind::max) || !extremeOf(largest))
    return false;
  auto sum = llvm::find_if(passes[1].reduces,
                           [&](Node* reduce) { return sumsExponentials(reduce, largest); });
  if (sum == passes[1].reduces.end())
    return false;
  load.setParts(kParts);
  awaited.erase();
  onlineSum = *sum;
  rowValues[onlineSum] = accumulator(onlineSum);
  builder.create<cu::CombineExponentialsOp>(onlineSum->value.getLoc(), tile, load.getFragment(),
                                            rowValues[largest], rowValues[onlineSum], kParts);
  auto own = builder.create<cu::RowsOp>(named("own_r", largest->value.getLoc()),
                                        rowValues[largest].getType());
  computeRows(largest->value.getLoc(), {rowValues[largest]},
              [&](ValueRange values) { builder.create<cu::SetRowOp>(location, values[0], own); });
  ownLargest = own;
  return true;
}

/// Makes the sum refer to the row's largest, before its lanes are combined. Where a thread has
/// nothing above -inf its sum is 0, and NaN if that is all there is in the row.
void Lowering::scaleOnline(Node* largest) {
  computeRows(onlineSum->value.getLoc(), {rowValues[onlineSum], ownLargest, rowValues[largest]},
              [&](ValueRange values) {
                Value difference = builder.create<arith::SubFOp>(location, values[1], values[2]);
                Value factor =
                    builder.create<math::ExpOp>(location, difference, arith::FastMathFlags::afn);
                Value scaled = builder.create<arith::MulFOp>(location, values[0], factor);
                builder.create<cu::SetRowOp>(location, scaled, rowValues[onlineSum]);
              });
}

} // namespace kiln::rows
