// kiln.softmax: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

void SoftmaxOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "p");
}

LogicalResult SoftmaxOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  return success(succeeded(verifyShape(*this, "bias", getBias(), shape, "the input")) &&
                 succeeded(verifyShape(*this, "mask", getMask(), shape, "the input")) &&
                 succeeded(verifyShape(*this, "output", getOutput(), shape, "the input")));
}

void SoftmaxOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const Tensor64* bias = getBias() ? inputs[1] : nullptr;
  const Tensor64* mask = getMask() ? inputs.back() : nullptr;
  const double scale = getScale().convertToFloat();
  const int64_t n = x.width();
  results[0] = makeTensor64(x.shape);
  for (int64_t r = 0; r < x.rows(); ++r) {
    double* y = results[0].row(r);
    double largest = -kInfinity, sum = 0.0;
    bool any = !mask;
    auto open = [&](int64_t i) { return !mask || mask->row(r)[i] != 0.0; };
    for (int64_t i = 0; i < n; ++i) {
      if (!open(i))
        continue;
      any = true;
      y[i] = x.row(r)[i] * scale + (bias ? bias->row(r)[i] : 0.0);
      largest = std::isnan(y[i]) || y[i] > largest ? y[i] : largest;
    }
    if (!any)
      continue;
    if (mask && largest == -kInfinity) { // every open place is -inf: zeros, as for a closed row
      std::fill_n(y, n, 0.0);
      continue;
    }
    for (int64_t i = 0; i < n; ++i)
      sum += y[i] = open(i) ? std::exp(y[i] - largest) : 0.0;
    for (int64_t i = 0; i < n; ++i)
      y[i] /= sum;
  }
}

/// dx = scale y (dy - sum(y dy)); the bias gets it without the scale.
LogicalResult SoftmaxOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || (!gradient.wants(getInput()) && !gradient.wants(getBias())))
    return success();
  MathBuilder& math = gradient.math;
  Value y = math.f32(getOutput());
  Value weighted = math.mul(y, dy);
  Value inner = math.sub(dy, math.alongRow(math.sumOfRow(weighted), y));
  Value ds = math.mul(y, inner);
  double scale = getScale().convertToFloat();
  if (gradient.wants(getInput()))
    gradient.add(getInput(), scale == 1.0 ? ds : math.mul(ds, scale));
  if (gradient.wants(getBias()))
    gradient.add(getBias(), ds);
  return success();
}

SmallVector<Value> SoftmaxOp::decompose(MathBuilder& math) {
  Value s = math.f32(getInput());
  if (double scale = getScale().convertToFloat(); scale != 1.0)
    s = math.mul(s, scale);
  if (getBias())
    s = math.add(s, math.f32(getBias()));
  if (getMask())
    s = math.select(getMask(), s, math.constant(-kInfinity, s));
  Value largest = math.maxOfRow(s);
  if (getMask()) { // a closed row: exp(-inf - 0) = 0 everywhere
    Value closed = math.equal(largest, math.constant(-kInfinity, largest));
    largest = math.select(closed, math.constant(0.0, largest), largest);
  }
  Type type = tensorType(getOutput()).getElementType();
  Value e = math.expFor(type, math.sub(s, math.alongRow(largest, s)));
  Value sum = math.sumOfRow(e);
  if (getMask()) {
    Value empty = math.equal(sum, math.constant(0.0, sum));
    sum = math.select(empty, math.constant(1.0, sum), sum);
  }
  // A narrower result hides the second rounding of a product with the reciprocal.
  Value y = type.isF32() ? math.divideByRow(e, sum)
                         : math.expTimes(type, s, largest, math.div(math.constant(1.0, sum), sum));
  return {math.cast(y, type)};
}
