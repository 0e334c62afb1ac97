// kiln.rope: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace kiln::ir;

void RopeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

PairsAttr RopeOp::pairs() {
  int64_t row = tensorType(getInput()).getShape().back();
  return PairsAttr::get(getContext(), getPairing(), getWidth().value_or(row));
}

LogicalResult RopeOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  int64_t width = getWidth().value_or(shape.back());
  if (width < 2 || width % 2 != 0 || width > shape.back())
    return emitOpError("turns pairs of ")
           << width << " columns of a row of " << shape.back()
           << "; an even number from 2 to the size of the row is allowed";
  double base = getBase().convertToDouble();
  if (!(base >= 1.0 && base <= 1e30))
    return emitOpError("base ") << base << ": give a number from 1 to 1e30";
  auto positions = tensorType(getPositions());
  if (static_cast<int64_t>(getDims().size()) != positions.getRank())
    return emitOpError("has ") << getDims().size() << " dims for positions of rank "
                               << positions.getRank()
                               << "; name one dimension of the input for each";
  int64_t previous = -1, leading = shape.size() - 1;
  for (auto [k, d] : llvm::enumerate(getDims())) {
    if (d <= previous || d >= leading)
      return emitOpError("dims [")
             << getDims() << "] for an input of " << leading
             << " leading dimensions: give increasing dimensions from 0 to " << leading - 1;
    previous = d;
    int64_t size = positions.getDimSize(k);
    if (size != 1 && size != shape[d])
      return emitOpError("dimension ") << k << " of the positions and dimension " << d
                                       << " of the input differ in size; they must agree, or the "
                                          "positions' be 1";
  }
  return verifyShape(*this, "output", getOutput(), shape, "the input");
}

void RopeOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64 &x = *inputs[0], &positions = *inputs[1];
  Tensor64& y = results[0] = makeTensor64(x.shape);
  SmallVector<int64_t> strides(x.shape.size(), 0);
  for (int64_t k = positions.shape.size() - 1, stride = 1; k >= 0; --k) {
    strides[getDims()[k]] = positions.shape[k] == 1 ? 0 : stride;
    stride *= positions.shape[k];
  }
  PairsAttr columns = pairs();
  const double width = columns.getWidth(), base = getBase().convertToDouble();
  for (int64_t r = 0; r < x.rows(); ++r) {
    int64_t at = 0, rest = r;
    for (int64_t d = x.shape.size() - 2; d >= 0; rest /= x.shape[d--])
      at += rest % x.shape[d] * strides[d];
    int64_t pair = 0;
    for (int64_t j = 0; j < x.width(); ++j) {
      int64_t k = columns.partnerOf(j);
      if (k == j)
        y.row(r)[j] = x.row(r)[j];
      if (k <= j)
        continue;
      double angle = positions.data[at] * std::pow(base, -2.0 * pair++ / width);
      double c = std::cos(angle), s = getInverse() ? -std::sin(angle) : std::sin(angle);
      y.row(r)[j] = x.row(r)[j] * c - x.row(r)[k] * s;
      y.row(r)[k] = x.row(r)[k] * c + x.row(r)[j] * s;
    }
  }
}

LogicalResult RopeOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy)
    return success();
  MathBuilder& math = gradient.math;
  gradient.add(getInput(), math.builder.create<RopeOp>(math.location, dy.getType(), dy,
                                                       getPositions(), getDims(), getPairing(),
                                                       getBase(), getWidthAttr(), !getInverse()));
  return success();
}

namespace {

/// high + low, where low is about a rounding error of high.
struct Exact {
  Value high, low;
};

/// Splits a constant into a multiple of 2^-bits and the rest.
std::pair<double, double> split(double number, int bits) {
  double high = std::ldexp(std::round(std::ldexp(number, bits)), -bits);
  return {high, number - high};
}

Value floorOf(MathBuilder& math, Value value) {
  return math.builder.create<math::FloorOp>(math.location, value);
}

/// 2^n of whole numbers n as fp32, from -126 to 127: n becomes the exponent.
Value powerOfTwo(MathBuilder& math, Value n) {
  auto type = tensorType(n).clone(math.builder.getI32Type());
  Value bits = math.builder.create<arith::FPToSIOp>(math.location, type, n);
  bits = math.builder.create<arith::AddIOp>(math.location, bits, math.integer(127, bits));
  bits = math.builder.create<arith::MulIOp>(math.location, bits, math.integer(1 << 23, bits));
  return math.builder.create<arith::BitcastOp>(math.location, n.getType(), bits);
}

/// a + b for any two numbers (Knuth, The Art of Computer Programming 2, 4.2.2).
Exact sum(MathBuilder& math, Value a, Value b) {
  Value high = math.add(a, b), ofB = math.sub(high, a);
  Value low = math.add(math.sub(a, math.sub(high, ofB)), math.sub(b, ofB));
  return {high, low};
}
/// a + b where a is the larger (Dekker, 1971).
Exact sumOfLarger(MathBuilder& math, Value a, Value b) {
  Value high = math.add(a, b);
  return {high, math.sub(b, math.sub(high, a))};
}
Exact product(MathBuilder& math, Value a, Value b) {
  Value high = math.roundedMul(a, b);
  return {high, math.fma(a, b, math.neg(high))};
}

/// 2^x, |x| <= 1/2 or little more: 1 + z + z^2 / 2 exactly and the rest of the series of e^z.
Exact exp2(MathBuilder& math, const Exact& x) {
  constexpr double ln2 = std::numbers::ln2;
  Value slope = math.constant(ln2, x.high);
  Exact z = product(math, x.high, slope);
  Value low = math.mul(x.high, ln2 - static_cast<float>(ln2));
  z.low = math.add(z.low, math.fma(x.low, slope, low));
  Exact square = product(math, z.high, z.high);
  Exact t = sumOfLarger(math, z.high, math.mul(square.high, 0.5));
  Value series = math.constant(1.0 / 40320, z.high);
  for (double factorial : {5040, 720, 120, 24, 6})
    series = math.fma(series, z.high, math.constant(1.0 / factorial, z.high));
  low = math.fma(square.low, math.constant(0.5, z.high), t.low);
  low = math.add(low, math.fma(z.low, t.high, z.low)); // e^z for the part of z left out
  low = math.fma(math.mul(square.high, z.high), series, low);
  Exact one = sumOfLarger(math, math.constant(1.0, z.high), t.high);
  return sumOfLarger(math, one.high, math.add(one.low, low));
}

/// Turns for each position, base^(-twice / width) / 2 pi, where `twice` is twice the pair's number.
/// The exponent is a sum of what is exact on a grid and of what is small.
Exact frequency(MathBuilder& math, Value twice, double base, int64_t width) {
  auto [slope, slopeLow] = split(-std::log2(base) / static_cast<double>(width), 16);
  auto [first, firstLow] = split(-std::log2(2 * std::numbers::pi), 16);
  Value exponent = math.fma(twice, math.constant(slope, twice), math.constant(first, twice));
  Value low = math.fma(twice, math.constant(slopeLow, twice), math.constant(firstLow, twice));
  Value whole = floorOf(math, math.add(exponent, 0.5));
  Exact f = exp2(math, sum(math, math.sub(exponent, whole), low));
  Value scale = powerOfTwo(math, whole);
  return {math.mul(f.high, scale), math.mul(f.low, scale)};
}

/// position * frequency without whole turns, in radians.
Value angleOf(MathBuilder& math, Value position, const Exact& frequency) {
  Exact turns = product(math, position, frequency.high);
  Value part = math.sub(turns.high, floorOf(math, math.add(turns.high, 0.5)));
  part = math.add(part, math.fma(position, frequency.low, turns.low));
  return math.mul(part, 2 * std::numbers::pi);
}

} // namespace

SmallVector<Value> RopeOp::decompose(MathBuilder& math) {
  PairsAttr columns = pairs();
  const int64_t width = columns.getWidth(), row = tensorType(getInput()).getShape().back();
  OpBuilder& builder = math.builder;
  Value x = math.f32(getInput());
  Value other = math.f32(math.partner(getInput(), columns));
  Value column = math.index(tensorType(x).getRank() - 1, x, builder.getI32Type());
  Value twice, isFirst;
  if (getPairing() == Pairing::interleaved) {
    Value odd =
        builder.create<arith::AndIOp>(math.location, column, math.integer(1, column)).getResult();
    isFirst = math.equal(odd, math.integer(0, column));
    twice = math.f32(builder.create<arith::SubIOp>(math.location, column, odd));
  } else {
    Value half = math.integer(width / 2, column);
    isFirst = math.inRange(column, half);
    Value right = builder.create<arith::SubIOp>(math.location, column, half);
    twice = math.mul(math.f32(math.select(isFirst, column, right)), 2.0);
  }
  Value position = math.broadcast(math.f32(getPositions()), getDims(), x);
  Value angle = angleOf(math, position, frequency(math, twice, getBase().convertToDouble(), width));
  const Type stored = tensorType(getOutput()).getElementType();
  auto flags = stored.isF32() ? arith::FastMathFlags::none : arith::FastMathFlags::afn;
  Value cosine = builder.create<math::CosOp>(math.location, angle, flags);
  Value sine = builder.create<math::SinOp>(math.location, angle, flags);
  for (Value wave : {cosine, sine}) // of an angle within half a turn
    wave.getDefiningOp()->setAttr(kNearAttr, builder.getUnitAttr());
  Value minus = math.neg(sine);
  sine = getInverse() ? math.select(isFirst, sine, minus) : math.select(isFirst, minus, sine);
  Value y = math.add(math.mul(x, cosine), math.mul(other, sine));
  if (width < row)
    y = math.select(math.inRange(column, math.integer(width, column)), y, x);
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
