// kiln.adamw: verifier, fp64 reference, decomposition.
#include "dialect/Kiln.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

NumbersTaken AdamwOp::numbersTaken(unsigned operand) {
  const Value taken = getOperand(operand);
  if (taken == getExpAvgSq() || taken == getStep())
    return {.lowest = 0.0, .ascendWithin = {}};
  return {};
}

Value AdamwOp::getCopy() {
  return getOthers().size() > (getEma() ? 1u : 0u) ? Value(getOthers().front()) : Value();
}
Value AdamwOp::getNewEma() {
  return getEma() ? Value(getOthers().back()) : Value();
}

void AdamwOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getNewParam(), "new_param");
  setName(getNewExpAvg(), "new_exp_avg");
  setName(getNewExpAvgSq(), "new_exp_avg_sq");
  if (Value copy = getCopy())
    setName(copy, "copy");
  if (Value ema = getNewEma())
    setName(ema, "new_ema");
}

static LogicalResult verifyF32(Operation* op, StringRef what, Value value,
                               ArrayRef<int64_t> shape) {
  if (!value)
    return success();
  if (Type type = tensorType(value).getElementType(); !type.isF32())
    return op->emitOpError() << what << " has elements of type " << type << ", it is always f32";
  return verifyShape(op, what, value, shape, shape.empty() ? "a shared number" : "the parameter");
}

static LogicalResult verifyRange(Operation* op, StringRef what, const APFloat& value,
                                 double highest) {
  double number = value.convertToDouble();
  if (number >= 0.0 && number < highest)
    return success();
  return op->emitOpError() << what << " = " << number
                           << (std::isinf(highest) ? ": it is finite and not negative"
                                                   : ": it is at least 0 and less than 1");
}

LogicalResult AdamwOp::verify() {
  auto shape = tensorType(getParam()).getShape();
  if (shape.empty())
    return emitOpError("the parameter has rank 0; it needs at least one dimension");
  const size_t extra = getEma() ? 1 : 0;
  if (getOthers().size() < extra || getOthers().size() > extra + 1)
    return emitOpError("has ") << getNumResults() << " results; " << 3 + extra
                               << " are required and one more may follow the first three: the "
                                  "parameter rounded to bf16 or f16";
  if (getEmaDecay().has_value() != (getEma() != nullptr))
    return emitOpError("an operand ema and ema_decay are given together or not at all");
  std::pair<StringRef, Value> tensors[] = {{"param", getParam()},
                                           {"exp_avg", getExpAvg()},
                                           {"exp_avg_sq", getExpAvgSq()},
                                           {"ema", getEma()},
                                           {"new_param", getNewParam()},
                                           {"new_exp_avg", getNewExpAvg()},
                                           {"new_exp_avg_sq", getNewExpAvgSq()},
                                           {"new_ema", getNewEma()}};
  for (auto [what, value] : tensors)
    if (failed(verifyF32(*this, what, value, shape)))
      return failure();
  std::pair<StringRef, Value> scalars[] = {
      {"lr", getLr()}, {"step", getStep()}, {"grad_scale", getGradScale()}};
  for (auto [what, value] : scalars)
    if (failed(verifyF32(*this, what, value, {})))
      return failure();
  if (Value copy = getCopy(); copy && tensorType(copy).getElementTypeBitWidth() != 16)
    return emitOpError("the rounded parameter has elements of type ")
           << tensorType(copy).getElementType() << "; allowed are bf16 and f16";
  const double infinity = std::numeric_limits<double>::infinity();
  return success(succeeded(verifyShape(*this, "grad", getGrad(), shape, "the parameter")) &&
                 succeeded(verifyShape(*this, "copy", getCopy(), shape, "the parameter")) &&
                 succeeded(verifyRange(*this, "beta1", getBeta1(), 1.0)) &&
                 succeeded(verifyRange(*this, "beta2", getBeta2(), 1.0)) &&
                 succeeded(verifyRange(*this, "eps", getEps(), infinity)) &&
                 succeeded(verifyRange(*this, "weight_decay", getWeightDecay(), infinity)) &&
                 (!getEma() || succeeded(verifyRange(*this, "ema_decay", *getEmaDecay(), 1.0))));
}

void AdamwOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  const double eps = getEps().convertToDouble(), decay = getWeightDecay().convertToDouble();
  const double lr = inputs[4]->data[0], t = inputs[5]->data[0], scale = inputs[6]->data[0];
  for (Tensor64& result : results)
    result = makeTensor64(inputs[0]->shape);
  for (int64_t i = 0; i < inputs[0]->size(); ++i) {
    double g = inputs[1]->data[i] * scale;
    double m = results[1].data[i] = beta1 * inputs[2]->data[i] + (1.0 - beta1) * g;
    double v = results[2].data[i] = beta2 * inputs[3]->data[i] + (1.0 - beta2) * g * g;
    double denominator = std::sqrt(v) / std::sqrt(1.0 - std::pow(beta2, t)) + eps;
    double p = inputs[0]->data[i] * (1.0 - lr * decay);
    p -= lr / (1.0 - std::pow(beta1, t)) * m / denominator;
    results[0].data[i] = p;
    if (getCopy())
      results[3].data[i] = p;
    if (getEma()) {
      double keep = getEmaDecay()->convertToDouble();
      results.back().data[i] = keep * inputs[7]->data[i] + (1.0 - keep) * p;
    }
  }
}

LogicalResult AdamwOp::gradient(Gradient&) {
  return emitOpError("has no gradient: an optimizer's step is not differentiated");
}

/// What depends on the shared numbers alone is computed once, not for each element.
SmallVector<Value> AdamwOp::decompose(MathBuilder& math) {
  const double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  auto everywhere = [&](Value number) { return math.broadcast(number, {}, getParam()); };
  auto mix = [&](Value old, Value now, double keep) { // keep old + (1 - keep) now
    return math.fma(math.sub(now, old), math.constant(1.0 - keep, old), old);
  };
  auto correction = [&](double beta) { // 1 - beta^t
    return math.neg(math.expm1(math.mul(getStep(), std::log(beta))));
  };
  Value rate = math.div(getLr(), correction(beta1));
  Value inverse = math.rsqrt(correction(beta2));
  Value decay = math.add(math.mul(getLr(), -getWeightDecay().convertToDouble()), 1.0);

  Value g = math.mul(getGrad(), everywhere(getGradScale()));
  Value m = mix(getExpAvg(), g, beta1);
  Value v = math.fma(math.mul(g, 1.0 - beta2), g, math.mul(getExpAvgSq(), beta2));
  Value eps = math.constant(getEps().convertToDouble(), v);
  Value denominator = math.fma(math.sqrt(v), everywhere(inverse), eps);
  Value p = math.mul(getParam(), everywhere(decay));
  p = math.fma(everywhere(math.neg(rate)), math.div(m, denominator), p);
  SmallVector<Value> results{p, m, v};
  if (Value copy = getCopy())
    results.push_back(math.cast(p, tensorType(copy).getElementType()));
  if (getEma())
    results.push_back(mix(getEma(), p, getEmaDecay()->convertToDouble()));
  return results;
}
