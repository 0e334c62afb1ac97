// See Elementary.h.
#include "codegen/family/Elementary.h"

#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

#include <limits>

using namespace mlir;
using namespace kiln::ir;

namespace kiln::family {

/// The names an operation suggests for its results stay with the values that replace them.
static void keepNames(Operation& op, ArrayRef<Value> values) {
  auto named = dyn_cast<OpAsmOpInterface>(op);
  if (!named)
    return;
  named.getAsmResultNames([&](Value result, StringRef name) {
    Operation* to = values[cast<OpResult>(result).getResultNumber()].getDefiningOp();
    if (to)
      to->setLoc(NameLoc::get(StringAttr::get(op.getContext(), name), op.getLoc()));
  });
}

/// Scalar math and reductions on bf16 and fp16 are done in fp32 and rounded once at the end.
static void widen(Operation& op) {
  auto narrow = [](Value value) {
    Type type = tensorType(value).getElementType();
    return type.isBF16() || type.isF16();
  };
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::SelectOp, arith::ConstantOp, arith::BitcastOp>(op))
    return;
  bool scalar = findScalarOp(op.getName().getStringRef());
  if (!scalar && !isa<ReduceOp, SegmentSumOp>(op))
    return;
  OpBuilder builder(&op);
  MathBuilder math(builder, op.getLoc());
  for (OpOperand& operand : op.getOpOperands())
    if (narrow(operand.get()))
      operand.set(math.f32(operand.get()));
  Value result = op.getResult(0);
  if (!narrow(result))
    return;
  auto type = tensorType(result);
  result.setType(type.clone(builder.getF32Type()));
  builder.setInsertionPointAfter(&op);
  auto rounded = builder.create<arith::TruncFOp>(op.getLoc(), type, result);
  result.replaceAllUsesExcept(rounded, rounded);
}

/// Elements that a kernel computes cannot be loaded: the sum of a row that is zero but at the
/// index.
static void compareColumns(PickOp pick) {
  if (isa<BlockArgument>(pick.getInput()) && isa<BlockArgument>(pick.getIndex()))
    return;
  OpBuilder builder(pick);
  MathBuilder math(builder, pick.getLoc());
  Value x = pick.getInput(), index = pick.getIndex();
  Value wide = isa<FloatType>(tensorType(x).getElementType()) ? math.f32(x) : x;
  Value chosen = math.isColumn(index, wide);
  Value sum = math.sumOfRow(math.select(chosen, wide, math.constant(0.0, wide)));
  Value width = math.integer(tensorType(x).getShape().back(), index);
  Value missing = math.constant(std::numeric_limits<double>::quiet_NaN(), sum);
  Value value = math.select(math.inRange(index, width), sum, missing);
  pick.replaceAllUsesWith(math.cast(value, tensorType(pick.getOutput()).getElementType()));
  pick.erase();
}

static bool isZero(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  return matchPattern(value, m_AnyZeroFloat());
}

/// `c ? a * b : 0`, plus r: `c ? fma(a, b, r) : r`, where the assembler, which may join no product
/// and sum across a choice, takes an instruction more and computes both sides under predicates.
static void addBeforeChoice(arith::AddFOp sum) {
  for (unsigned side : {0, 1}) {
    auto choice = sum->getOperand(side).getDefiningOp<arith::SelectOp>();
    auto product = choice ? choice.getTrueValue().getDefiningOp<arith::MulFOp>() : nullptr;
    if (!product || !choice->hasOneUse() || !product->hasOneUse() ||
        product->hasAttr(kRoundedAttr) || !isZero(choice.getFalseValue()))
      continue;
    OpBuilder builder(sum);
    MathBuilder math(builder, sum.getLoc());
    Value rest = sum->getOperand(1 - side);
    Value joined = math.fma(product.getLhs(), product.getRhs(), rest);
    sum.replaceAllUsesWith(math.select(choice.getCondition(), joined, rest));
    for (Operation* replaced : {sum.getOperation(), choice.getOperation(), product.getOperation()})
      replaced->erase();
    return;
  }
}

void decomposeNamedOps(Block& block) {
  for (Operation& op : llvm::make_early_inc_range(block)) {
    auto named = dyn_cast<KilnOpInterface>(op);
    if (!named || isa<ir::KernelOp>(op))
      continue;
    OpBuilder builder(&op);
    MathBuilder math(builder, op.getLoc());
    SmallVector<Value> values = named.decompose(math);
    if (values.empty())
      continue;
    keepNames(op, values);
    op.replaceAllUsesWith(values);
    op.erase();
  }
  for (PickOp pick : llvm::make_early_inc_range(block.getOps<PickOp>()))
    compareColumns(pick);
  for (Operation& op : llvm::make_early_inc_range(block))
    widen(op);
  for (arith::AddFOp sum : llvm::make_early_inc_range(block.getOps<arith::AddFOp>()))
    addBeforeChoice(sum);
}

OwningOpRef<ir::KernelOp> elementaryCopy(ir::KernelOp kernel) {
  OwningOpRef<ir::KernelOp> copy(kernel.clone());
  copy->getInputsMutable().clear(); // the copy may outlive what feeds the kernel
  decomposeNamedOps(copy->getBody().front());
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(*copy);
  eliminateCommonSubExpressions(rewriter, dominance, *copy);
  return copy;
}

} // namespace kiln::family
