// kiln.dropout: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"
#include "dialect/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln::ir;

void DropoutOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult DropoutOp::verify() {
  double p = getP().convertToFloat();
  if (!(p >= 0.0 && p <= 1.0))
    return emitOpError("p = ") << p << " is no probability; give a number from 0 to 1";
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  int64_t previous = -1, rank = shape.size();
  for (int64_t d : getShared()) {
    if (d <= previous || d >= rank)
      return emitOpError("shared [") << getShared() << "] of a tensor of rank " << rank
                                     << ": give increasing dimensions from 0 to " << rank - 1;
    previous = d;
  }
  return verifyShape(*this, "output", getOutput(), shape, "the input");
}

void DropoutOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const DropoutRule rule(getP().convertToFloat());
  RandomNumbers random(*inputs[1], *inputs[2], rule.bits);
  Tensor64& y = results[0] = makeTensor64(x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t place = 0, stride = 1, rest = i; // in the numbers, of size 1 where they are shared
    for (int64_t d = x.shape.size() - 1; d >= 0; rest /= x.shape[d--]) {
      if (llvm::is_contained(getShared(), d))
        continue;
      place += rest % x.shape[d] * stride;
      stride *= x.shape[d];
    }
    if (rule.keeps(random.word(place)))
      y.data[i] = x.data[i] * rule.scale;
  }
}

/// `value` scaled where the numbers keep it, else 0. A word needs no conversion to be compared.
static Value drop(DropoutOp op, MathBuilder& math, Value value) {
  double p = op.getP().convertToFloat();
  if (p == 0.0 || p == 1.0)
    return p == 0.0 ? value : math.constant(0.0, value);
  const DropoutRule rule(p);
  SmallVector<int64_t> shape(tensorType(value).getShape());
  bool isDynamic = !tensorType(value).hasStaticShape();
  for (int64_t d : op.getShared())
    shape[d] = 1;
  Value u = math.builder.create<RandomOp>(
      math.location, RankedTensorType::get(shape, math.builder.getI32Type()), op.getSeed(),
      op.getOffset(), isDynamic ? value : Value(), rule.bits);
  if (!op.getShared().empty())
    u = math.broadcast(u, dimsFrom(0, shape.size()), value);
  Value least = math.integer(static_cast<int64_t>(rule.least), u);
  Value keep =
      math.builder.create<arith::CmpIOp>(math.location, arith::CmpIPredicate::sge, u, least);
  return math.select(keep, math.mul(value, rule.scale), math.constant(0.0, value));
}

/// dx = dy scale where x was kept. The numbers take their shape from dy: x is not needed again.
LogicalResult DropoutOp::gradient(Gradient& gradient) {
  if (Value dy = gradient.of(getOutput()))
    gradient.add(getInput(), drop(*this, gradient.math, dy));
  return success();
}

SmallVector<Value> DropoutOp::decompose(MathBuilder& math) {
  Value y = drop(*this, math, math.f32(getInput()));
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
