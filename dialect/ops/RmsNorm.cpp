// kiln.rms_norm: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln::ir;

void RmsNormOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
  setName(getRstd(), "rstd");
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  if (getEps().isNegative() || getEps().isNaN())
    return emitOpError("eps is ") << getEps().convertToFloat() << "; it must not be negative";
  return success(succeeded(verifyShape(*this, "gamma", getGamma(), shape.back(), "the row")) &&
                 succeeded(verifyShape(*this, "output", getOutput(), shape, "the input")) &&
                 succeeded(verifyStatistic(*this, "rstd", getRstd(), getInput())));
}

void RmsNormOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const int64_t n = x.width();
  results[0] = makeTensor64(x.shape);
  results[1] = makeTensor64(ArrayRef(x.shape).drop_back());
  for (int64_t r = 0; r < x.rows(); ++r) {
    const double* row = x.row(r);
    double square = 0.0;
    for (int64_t i = 0; i < n; ++i)
      square += row[i] * row[i] / n;
    double rstd = 1.0 / std::sqrt(square + getEps().convertToFloat());
    for (int64_t i = 0; i < n; ++i)
      results[0].row(r)[i] = row[i] * rstd * (getGamma() ? inputs[1]->data[i] : 1.0);
    results[1].data[r] = rstd;
  }
}

/// With n = x rstd and g = dy gamma: dx = rstd (g - n mean(g n)), computed as
/// dy rstd gamma - x rstd^2 mean(g n): only two roundings are of the size of the result.
LogicalResult RmsNormOp::gradient(Gradient& gradient) {
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  Value rstd = math.alongRow(getRstd(), x);
  Value normal = math.mul(x, rstd);
  if (Value dy = gradient.of(getOutput())) {
    if (gradient.wants(getInput())) {
      Value gamma = getGamma() ? math.alongColumns(math.f32(getGamma()), x) : Value();
      Value g = gamma ? math.mul(dy, gamma) : dy;
      Value slope = math.meanOfRow(math.mul(g, normal));
      slope = math.mul(slope, math.mul(getRstd(), getRstd()));
      gradient.add(getInput(), math.fma(g, rstd, math.neg(math.mul(x, math.alongRow(slope, x)))));
    }
    if (gradient.wants(getGamma()))
      gradient.add(getGamma(), math.sumOfColumns(math.mul(dy, normal)));
  }
  if (Value drstd = gradient.of(getRstd())) { // d rstd / dx = -rstd^2 n / N
    double perElement = 1.0 / tensorType(getInput()).getShape().back();
    Value factor = math.mul(math.mul(drstd, math.mul(getRstd(), getRstd())), -perElement);
    gradient.add(getInput(), math.mul(normal, math.alongRow(factor, x)));
  }
  return success();
}

SmallVector<Value> RmsNormOp::decompose(MathBuilder& math) {
  Value x = math.f32(getInput());
  Value square = math.meanOfRow(math.mul(x, x));
  Value rstd = math.rsqrt(math.add(square, getEps().convertToFloat()));
  Value y = math.mul(x, math.alongRow(rstd, x));
  if (getGamma())
    y = math.mul(y, math.alongColumns(math.f32(getGamma()), x));
  return {math.cast(y, tensorType(getOutput()).getElementType()), rstd};
}
