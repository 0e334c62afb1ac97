// See Scalar.h. In the rules below d is the gradient of the result, x and y the operands, r the
// result itself.
#include "dialect/Scalar.h"

#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace kiln::ir {
namespace {

/// The pieces of one rule. `d` is null where nothing depends on the result.
struct Rule {
  Rule(Operation* op, Gradient& gradient)
      : gradient(gradient), math(gradient.math), x(op->getOperand(0)),
        y(op->getNumOperands() > 1 ? op->getOperand(1) : Value()), r(op->getResult(0)),
        d(gradient.of(r)) {}
  Gradient& gradient;
  MathBuilder& math;
  Value x, y, r, d;
};

template <void (*rule)(Rule&)> void gradientOf(Operation* op, Gradient& gradient) {
  Rule pieces(op, gradient);
  if (pieces.d)
    rule(pieces);
}
void noGradient(Operation*, Gradient&) {}

void addRule(Rule& o) {
  o.gradient.add(o.x, o.d);
  o.gradient.add(o.y, o.d);
}
void subRule(Rule& o) {
  o.gradient.add(o.x, o.d);
  if (o.gradient.wants(o.y))
    o.gradient.add(o.y, o.math.neg(o.d));
}
void mulRule(Rule& o) {
  if (o.gradient.wants(o.x))
    o.gradient.add(o.x, o.math.mul(o.d, o.y));
  if (o.gradient.wants(o.y))
    o.gradient.add(o.y, o.math.mul(o.d, o.x));
}
void divRule(Rule& o) {
  Value quotient = o.math.div(o.d, o.y);
  o.gradient.add(o.x, quotient);
  if (o.gradient.wants(o.y))
    o.gradient.add(o.y, o.math.neg(o.math.mul(quotient, o.r)));
}
void negRule(Rule& o) {
  o.gradient.add(o.x, o.math.neg(o.d));
}
void passRule(Rule& o) {
  o.gradient.add(o.x, o.d);
}

/// The larger (smaller) operand gets the gradient; equal ones share it, as ATen does.
void extremumRule(Rule& o) {
  Value half = o.math.constant(0.5, o.d), one = o.math.constant(1.0, o.d),
        zero = o.math.constant(0.0, o.d);
  Value tie = o.math.equal(o.x, o.y);
  for (Value operand : {o.x, o.y}) {
    if (!o.gradient.wants(operand))
      continue;
    Value alone = o.math.select(o.math.equal(operand, o.r), one, zero);
    o.gradient.add(operand, o.math.mul(o.d, o.math.select(tie, half, alone)));
  }
}
void expRule(Rule& o) {
  o.gradient.add(o.x, o.math.mul(o.d, o.r));
}
void expm1Rule(Rule& o) {
  o.gradient.add(o.x, o.math.mul(o.d, o.math.add(o.r, 1.0)));
}
void exp2Rule(Rule& o) {
  o.gradient.add(o.x, o.math.mul(o.math.mul(o.d, o.r), std::numbers::ln2));
}
void logRule(Rule& o) {
  o.gradient.add(o.x, o.math.div(o.d, o.x));
}
void log2Rule(Rule& o) {
  o.gradient.add(o.x, o.math.div(o.math.mul(o.d, std::numbers::log2e), o.x));
}
void rsqrtRule(Rule& o) { // -1/2 r^3
  Value cube = o.math.mul(o.r, o.math.mul(o.r, o.r));
  o.gradient.add(o.x, o.math.mul(o.math.mul(o.d, cube), -0.5));
}
void sqrtRule(Rule& o) {
  o.gradient.add(o.x, o.math.div(o.math.mul(o.d, 0.5), o.r));
}
void tanhRule(Rule& o) {
  Value slope = o.math.sub(o.math.constant(1.0, o.r), o.math.mul(o.r, o.r));
  o.gradient.add(o.x, o.math.mul(o.d, slope));
}
void erfRule(Rule& o) {
  Value bell = o.math.exp(o.math.neg(o.math.mul(o.x, o.x)));
  o.gradient.add(o.x, o.math.mul(o.math.mul(o.d, bell), 2.0 * std::numbers::inv_sqrtpi));
}
void absRule(Rule& o) {
  Value zero = o.math.constant(0.0, o.x);
  Value positive = o.math.greater(o.x, zero), negative = o.math.greater(zero, o.x);
  Value minus = o.math.select(negative, o.math.neg(o.d), zero);
  o.gradient.add(o.x, o.math.select(positive, o.d, minus));
}
void sinRule(Rule& o) {
  o.gradient.add(
      o.x, o.math.mul(o.d, o.math.builder.create<math::CosOp>(o.math.location, o.math.f32(o.x))));
}
void cosRule(Rule& o) {
  Value sine = o.math.builder.create<math::SinOp>(o.math.location, o.math.f32(o.x));
  o.gradient.add(o.x, o.math.neg(o.math.mul(o.d, sine)));
}

void selectGradient(Operation* op, Gradient& gradient) {
  Value d = gradient.of(op->getResult(0));
  if (!d)
    return;
  MathBuilder& math = gradient.math;
  Value zero = math.constant(0.0, d);
  if (gradient.wants(op->getOperand(1)))
    gradient.add(op->getOperand(1), math.select(op->getOperand(0), d, zero));
  if (gradient.wants(op->getOperand(2)))
    gradient.add(op->getOperand(2), math.select(op->getOperand(0), zero, d));
}
void fmaGradient(Operation* op, Gradient& gradient) {
  Rule o(op, gradient);
  if (!o.d)
    return;
  mulRule(o);
  gradient.add(op->getOperand(2), o.d);
}

double compareFloats(Operation* op, const double* v) {
  bool unordered = std::isnan(v[0]) || std::isnan(v[1]);
  using P = arith::CmpFPredicate;
  switch (cast<arith::CmpFOp>(op).getPredicate()) {
  case P::AlwaysFalse:
    return 0;
  case P::OEQ:
    return v[0] == v[1];
  case P::OGT:
    return v[0] > v[1];
  case P::OGE:
    return v[0] >= v[1];
  case P::OLT:
    return v[0] < v[1];
  case P::OLE:
    return v[0] <= v[1];
  case P::ONE:
    return !unordered && v[0] != v[1];
  case P::ORD:
    return !unordered;
  case P::UEQ:
    return unordered || v[0] == v[1];
  case P::UGT:
    return unordered || v[0] > v[1];
  case P::UGE:
    return unordered || v[0] >= v[1];
  case P::ULT:
    return unordered || v[0] < v[1];
  case P::ULE:
    return unordered || v[0] <= v[1];
  case P::UNE:
    return unordered || v[0] != v[1];
  case P::UNO:
    return unordered;
  case P::AlwaysTrue:
    return 1;
  }
  llvm_unreachable("all predicates are listed");
}
/// Integers are held as signed values; unsigned predicates compare their bits.
double compareIntegers(Operation* op, const double* v) {
  auto a = static_cast<int64_t>(v[0]), b = static_cast<int64_t>(v[1]);
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  using P = arith::CmpIPredicate;
  switch (cast<arith::CmpIOp>(op).getPredicate()) {
  case P::eq:
    return a == b;
  case P::ne:
    return a != b;
  case P::slt:
    return a < b;
  case P::sle:
    return a <= b;
  case P::sgt:
    return a > b;
  case P::sge:
    return a >= b;
  case P::ult:
    return ua < ub;
  case P::ule:
    return ua <= ub;
  case P::ugt:
    return ua > ub;
  case P::uge:
    return ua >= ub;
  }
  llvm_unreachable("all predicates are listed");
}

int64_t whole(double v) {
  return static_cast<int64_t>(v);
}
/// The bits of a number, read as a number of another type of that width.
double reinterpret(Operation* op, const double* v) {
  Type from = tensorType(op->getOperand(0)).getElementType();
  APInt bits;
  bool lossy;
  if (auto type = dyn_cast<FloatType>(from)) {
    APFloat number(v[0]);
    number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    bits = number.bitcastToAPInt();
  } else {
    bits = APInt(from.getIntOrFloatBitWidth(), whole(v[0]), true);
  }
  auto type = dyn_cast<FloatType>(tensorType(op->getResult(0)).getElementType());
  if (!type)
    return static_cast<double>(bits.getSExtValue());
  APFloat number(type.getFloatSemantics(), bits);
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return number.convertToDouble();
}

double maximum(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double minimum(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

#define REFERENCE(expression) [](Operation*, const double* v) -> double { return expression; }

const ScalarOp kScalarOps[] = {
    {"arith.addf", REFERENCE(v[0] + v[1]), gradientOf<addRule>},
    {"arith.subf", REFERENCE(v[0] - v[1]), gradientOf<subRule>},
    {"arith.mulf", REFERENCE(v[0] * v[1]), gradientOf<mulRule>},
    {"arith.divf", REFERENCE(v[0] / v[1]), gradientOf<divRule>},
    {"arith.negf", REFERENCE(-v[0]), gradientOf<negRule>},
    {"arith.maximumf", REFERENCE(maximum(v[0], v[1])), gradientOf<extremumRule>},
    {"arith.minimumf", REFERENCE(minimum(v[0], v[1])), gradientOf<extremumRule>},
    {"arith.maxnumf", REFERENCE(std::fmax(v[0], v[1])), gradientOf<extremumRule>},
    {"arith.minnumf", REFERENCE(std::fmin(v[0], v[1])), gradientOf<extremumRule>},
    {"arith.cmpf", compareFloats, noGradient},
    {"arith.cmpi", compareIntegers, noGradient},
    {"arith.select", REFERENCE(v[0] != 0.0 ? v[1] : v[2]), selectGradient},
    {"arith.extf", REFERENCE(v[0]), gradientOf<passRule>},
    {"arith.truncf", REFERENCE(v[0]), gradientOf<passRule>},
    {"arith.bitcast", reinterpret, noGradient},
    {"arith.sitofp", REFERENCE(v[0]), noGradient},
    {"arith.uitofp", REFERENCE(v[0]), noGradient},
    {"arith.fptosi", REFERENCE(std::trunc(v[0])), noGradient},
    {"arith.extsi", REFERENCE(v[0]), noGradient},
    {"arith.extui", REFERENCE(v[0]), noGradient},
    {"arith.addi", REFERENCE(whole(v[0]) + whole(v[1])), noGradient},
    {"arith.subi", REFERENCE(whole(v[0]) - whole(v[1])), noGradient},
    {"arith.muli", REFERENCE(whole(v[0]) * whole(v[1])), noGradient},
    {"arith.andi", REFERENCE(whole(v[0]) & whole(v[1])), noGradient},
    {"arith.ori", REFERENCE(whole(v[0]) | whole(v[1])), noGradient},
    {"arith.xori", REFERENCE(whole(v[0]) ^ whole(v[1])), noGradient},
    {"math.exp", REFERENCE(std::exp(v[0])), gradientOf<expRule>},
    {"math.exp2", REFERENCE(std::exp2(v[0])), gradientOf<exp2Rule>},
    {"math.expm1", REFERENCE(std::expm1(v[0])), gradientOf<expm1Rule>},
    {"math.log", REFERENCE(std::log(v[0])), gradientOf<logRule>},
    {"math.log2", REFERENCE(std::log2(v[0])), gradientOf<log2Rule>},
    {"math.rsqrt", REFERENCE(1.0 / std::sqrt(v[0])), gradientOf<rsqrtRule>},
    {"math.sqrt", REFERENCE(std::sqrt(v[0])), gradientOf<sqrtRule>},
    {"math.tanh", REFERENCE(std::tanh(v[0])), gradientOf<tanhRule>},
    {"math.erf", REFERENCE(std::erf(v[0])), gradientOf<erfRule>},
    {"math.absf", REFERENCE(std::fabs(v[0])), gradientOf<absRule>},
    {"math.sin", REFERENCE(std::sin(v[0])), gradientOf<sinRule>},
    {"math.cos", REFERENCE(std::cos(v[0])), gradientOf<cosRule>},
    {"math.fma", REFERENCE(v[0] * v[1] + v[2]), fmaGradient},
    {"math.floor", REFERENCE(std::floor(v[0])), noGradient},
    {"math.ceil", REFERENCE(std::ceil(v[0])), noGradient},
    {"math.powf", REFERENCE(std::pow(v[0], v[1])), nullptr},
};

#undef REFERENCE

} // namespace

ArrayRef<ScalarOp> scalarOps() {
  return kScalarOps;
}

const ScalarOp* findScalarOp(StringRef name) {
  static const llvm::StringMap<const ScalarOp*> byName = [] {
    llvm::StringMap<const ScalarOp*> map;
    for (const ScalarOp& op : kScalarOps)
      map[op.name] = &op;
    return map;
  }();
  return byName.lookup(name);
}

} // namespace kiln::ir
