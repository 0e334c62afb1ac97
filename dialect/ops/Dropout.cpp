// kiln.dropout: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"
#include "dialect/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

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

static double scaleOf(DropoutOp op) {
  return static_cast<float>(1.0 / (1.0 - op.getP().convertToFloat()));
}
/// The bits that decide about an element: 16 where they say the probability to a thousandth.
static int64_t bitsOf(DropoutOp op) {
  double p = op.getP().convertToFloat();
  return std::min(p, 1.0 - p) * 128 >= 1 ? 16 : 32;
}
/// The least word, as a signed number, that keeps an element; 2^31 if none does.
static double leastOf(DropoutOp op) {
  double steps = std::exp2(bitsOf(op));
  return std::round(op.getP().convertToFloat() * steps) / steps * 0x1p32 - 0x1p31;
}

void DropoutOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  RandomNumbers random(*inputs[1], *inputs[2], bitsOf(*this));
  Tensor64& y = results[0] = makeTensor64(x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t place = 0, stride = 1, rest = i; // in the numbers, of size 1 where they are shared
    for (int64_t d = x.shape.size() - 1; d >= 0; rest /= x.shape[d--]) {
      if (llvm::is_contained(getShared(), d))
        continue;
      place += rest % x.shape[d] * stride;
      stride *= x.shape[d];
    }
    if (static_cast<int32_t>(random.word(place)) >= leastOf(*this))
      y.data[i] = x.data[i] * scaleOf(*this);
  }
}

/// `value` scaled where the numbers keep it, else 0. A word needs no conversion to be compared.
static Value drop(DropoutOp op, MathBuilder& math, Value value) {
  double p = op.getP().convertToFloat();
  if (p == 0.0 || p == 1.0)
    return p == 0.0 ? value : math.constant(0.0, value);
  SmallVector<int64_t> shape(tensorType(value).getShape());
  bool isDynamic = !tensorType(value).hasStaticShape();
  for (int64_t d : op.getShared())
    shape[d] = 1;
  Value u = math.builder.create<RandomOp>(
      math.location, RankedTensorType::get(shape, math.builder.getI32Type()), op.getSeed(),
      op.getOffset(), isDynamic ? value : Value(), bitsOf(op));
  if (!op.getShared().empty())
    u = math.broadcast(u, dimsFrom(0, shape.size()), value);
  Value least = math.integer(static_cast<int64_t>(leastOf(op)), u);
  Value keep =
      math.builder.create<arith::CmpIOp>(math.location, arith::CmpIPredicate::sge, u, least);
  return math.select(keep, math.mul(value, scaleOf(op)), math.constant(0.0, value));
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
