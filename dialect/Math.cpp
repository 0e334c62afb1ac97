// See Math.h.
#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace kiln::ir {

SmallVector<int64_t> dimsFrom(int64_t first, int64_t last) {
  SmallVector<int64_t> dims;
  for (int64_t d = first; d < last; ++d)
    dims.push_back(d);
  return dims;
}

Value MathBuilder::f32(Value value) {
  return cast(value, builder.getF32Type());
}

Value MathBuilder::cast(Value value, Type type) {
  auto from = tensorType(value);
  if (from.getElementType() == type)
    return value;
  auto to = from.clone(type);
  if (from.getElementType().isInteger(1))
    return builder.create<arith::UIToFPOp>(location, to, value);
  if (from.getElementType().isInteger())
    return builder.create<arith::SIToFPOp>(location, to, value);
  if (from.getElementTypeBitWidth() < type.getIntOrFloatBitWidth())
    return builder.create<arith::ExtFOp>(location, to, value);
  if (from.getElementTypeBitWidth() > type.getIntOrFloatBitWidth())
    return builder.create<arith::TruncFOp>(location, to, value);
  return cast(f32(value), type); // between bf16 and fp16
}

Value MathBuilder::constant(double number, Value like) {
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  Value value = builder.create<arith::ConstantOp>(
      location, DenseElementsAttr::get(scalar, static_cast<float>(number)));
  return tensorType(like).getRank() == 0 ? value : broadcast(value, {}, like);
}

Value MathBuilder::integer(int64_t number, Value like) {
  Type type = tensorType(like).getElementType();
  Value value = builder.create<arith::ConstantOp>(
      location, DenseElementsAttr::get(RankedTensorType::get({}, type),
                                       builder.getIntegerAttr(type, number).getValue()));
  return tensorType(like).getRank() == 0 ? value : broadcast(value, {}, like);
}

Value MathBuilder::index(int64_t dim, Value like, Type type) {
  auto result = tensorType(like).clone(type);
  return builder.create<IndexOp>(location, result, dim, result.hasStaticShape() ? Value() : like);
}

Value MathBuilder::add(Value a, Value b) {
  return builder.create<arith::AddFOp>(location, f32(a), f32(b));
}
Value MathBuilder::sub(Value a, Value b) {
  return builder.create<arith::SubFOp>(location, f32(a), f32(b));
}
Value MathBuilder::mul(Value a, Value b) {
  return builder.create<arith::MulFOp>(location, f32(a), f32(b));
}
Value MathBuilder::div(Value a, Value b) {
  return builder.create<arith::DivFOp>(location, f32(a), f32(b));
}
Value MathBuilder::roundedMul(Value a, Value b) {
  Value product = mul(a, b);
  product.getDefiningOp()->setAttr(kRoundedAttr, builder.getUnitAttr());
  return product;
}
Value MathBuilder::fma(Value a, Value b, Value c) {
  return builder.create<math::FmaOp>(location, f32(a), f32(b), f32(c));
}
Value MathBuilder::divideByRow(Value a, Value row) {
  Value inverse = alongRow(div(constant(1.0, row), row), a);
  Value quotient = mul(a, inverse);
  Value rest = fma(neg(quotient), alongRow(row, a), a);
  return fma(rest, inverse, quotient);
}
Value MathBuilder::mul(Value a, double factor) {
  return mul(a, constant(factor, a));
}
Value MathBuilder::add(Value a, double term) {
  return add(a, constant(term, a));
}
Value MathBuilder::neg(Value a) {
  return builder.create<arith::NegFOp>(location, f32(a));
}
Value MathBuilder::exp(Value a) {
  return builder.create<math::ExpOp>(location, f32(a));
}
Value MathBuilder::expFor(Type stored, Value a) {
  auto flags = stored.isF32() ? arith::FastMathFlags::none : arith::FastMathFlags::afn;
  return builder.create<math::ExpOp>(location, f32(a), flags);
}
Value MathBuilder::expTimes(Type stored, Value a, Value row, Value factor) {
  constexpr double lift = 16.0; // exp(-16) times the least normal is less than any bf16
  if (stored.isBF16()) {
    Value lower = add(row, -lift); // may round: the factor has the difference that there is
    factor = mul(factor, exp(sub(lower, row)));
    row = lower;
  }
  return mul(expFor(stored, sub(a, alongRow(row, a))), alongRow(factor, a));
}
Value MathBuilder::log(Value a) {
  return builder.create<math::LogOp>(location, f32(a));
}
Value MathBuilder::tanh(Value a) {
  return builder.create<math::TanhOp>(location, f32(a));
}
Value MathBuilder::erf(Value a) {
  return builder.create<math::ErfOp>(location, f32(a));
}
Value MathBuilder::rsqrt(Value a) {
  return builder.create<math::RsqrtOp>(location, f32(a));
}
Value MathBuilder::sqrt(Value a) {
  return builder.create<math::SqrtOp>(location, f32(a));
}
Value MathBuilder::expm1(Value a) {
  return builder.create<math::ExpM1Op>(location, f32(a));
}
Value MathBuilder::select(Value condition, Value a, Value b) {
  return builder.create<arith::SelectOp>(location, condition, a, b);
}
Value MathBuilder::equal(Value a, Value b) {
  if (tensorType(a).getElementType().isInteger())
    return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::eq, a, b);
  return builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::OEQ, f32(a), f32(b));
}
Value MathBuilder::greater(Value a, Value b) {
  return builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::OGT, f32(a), f32(b));
}
Value MathBuilder::maximum(Value a, Value b) {
  return builder.create<arith::MaximumFOp>(location, f32(a), f32(b));
}
Value MathBuilder::inRange(Value a, Value bound) { // below 0 is above every bound without a sign
  return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ult, a, bound);
}

Value MathBuilder::broadcast(Value value, ArrayRef<int64_t> dims, Value like) {
  auto type = tensorType(like).clone(tensorType(value).getElementType());
  return builder.create<BroadcastOp>(location, type, value, dims,
                                     type.hasStaticShape() ? Value() : like);
}
Value MathBuilder::isColumn(Value ofRow, Value like) {
  Value column = index(tensorType(like).getRank() - 1, like, tensorType(ofRow).getElementType());
  return equal(column, alongRow(ofRow, like));
}
Value MathBuilder::alongRow(Value statistic, Value like) {
  return broadcast(statistic, dimsFrom(0, tensorType(like).getRank() - 1), like);
}
Value MathBuilder::alongColumns(Value row, Value like) {
  int64_t rank = tensorType(like).getRank();
  return rank == 1 ? row : broadcast(row, {rank - 1}, like);
}

Value MathBuilder::partner(Value value, PairsAttr pairs) {
  return builder.create<PartnerOp>(location, value.getType(), value, pairs);
}

static Value reduce(MathBuilder& math, ReduceKind kind, Value value, ArrayRef<int64_t> dims) {
  value = math.f32(value);
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(tensorType(value).getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
      shape.push_back(size);
  auto type = RankedTensorType::get(shape, math.builder.getF32Type());
  return math.builder.create<ReduceOp>(math.location, type, kind, value, dims);
}

static int64_t lastDim(Value value) {
  return tensorType(value).getRank() - 1;
}

Value MathBuilder::sumOfRow(Value value) {
  return reduce(*this, ReduceKind::sum, value, lastDim(value));
}
Value MathBuilder::meanOfRow(Value value) {
  return reduce(*this, ReduceKind::mean, value, lastDim(value));
}
Value MathBuilder::maxOfRow(Value value) {
  return reduce(*this, ReduceKind::max, value, lastDim(value));
}
Value MathBuilder::sumOver(Value value, ArrayRef<int64_t> dims) {
  return dims.empty() ? f32(value) : reduce(*this, ReduceKind::sum, value, dims);
}
Value MathBuilder::sumOfColumns(Value value) {
  return sumOver(value, dimsFrom(0, lastDim(value)));
}
Value MathBuilder::named(StringRef name, Value value) {
  value.getDefiningOp()->setLoc(NameLoc::get(builder.getStringAttr(name), location));
  return value;
}

} // namespace kiln::ir
