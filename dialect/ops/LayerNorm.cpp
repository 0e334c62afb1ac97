// kiln.layer_norm: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;
using namespace kiln::ir;

void LayerNormOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
  setName(getMean(), "mean");
  setName(getRstd(), "rstd");
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  if (getBeta() && !getGamma())
    return emitOpError("has beta without gamma; give both, or gamma alone");
  if (getEps().isNegative() || getEps().isNaN())
    return emitOpError("eps is ") << getEps().convertToFloat() << "; it must not be negative";
  return success(succeeded(verifyShape(*this, "gamma", getGamma(), shape.back(), "the row")) &&
                 succeeded(verifyShape(*this, "beta", getBeta(), shape.back(), "the row")) &&
                 succeeded(verifyShape(*this, "output", getOutput(), shape, "the input")) &&
                 succeeded(verifyStatistic(*this, "mean", getMean(), getInput())) &&
                 succeeded(verifyStatistic(*this, "rstd", getRstd(), getInput())));
}

void LayerNormOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const int64_t n = x.width();
  results[0] = makeTensor64(x.shape);
  results[1] = results[2] = makeTensor64(ArrayRef(x.shape).drop_back());
  for (int64_t r = 0; r < x.rows(); ++r) {
    const double* row = x.row(r);
    double mean = 0.0, rest = 0.0, variance = 0.0;
    for (int64_t i = 0; i < n; ++i)
      mean += row[i] / n;
    for (int64_t i = 0; i < n; ++i)
      rest += (row[i] - mean) / n; // NaN, as ATen's mean, if an element is infinite
    mean += rest;
    for (int64_t i = 0; i < n; ++i)
      variance += (row[i] - mean) * (row[i] - mean) / n;
    double rstd = 1.0 / std::sqrt(variance + getEps().convertToFloat());
    for (int64_t i = 0; i < n; ++i) {
      double normal = (row[i] - mean) * rstd;
      double scaled = getGamma() ? normal * inputs[1]->data[i] : normal;
      results[0].row(r)[i] = getBeta() ? scaled + inputs[2]->data[i] : scaled;
    }
    results[1].data[r] = mean;
    results[2].data[r] = rstd;
  }
}

/// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)), computed as
/// (g - mean(g)) rstd - (x - mean) rstd^2 mean(g n): of its roundings only two have the size of the
/// result, as g - mean(g) is one operation. A row of one element cancels exactly.
LogicalResult LayerNormOp::gradient(Gradient& gradient) {
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  Value rstd = math.alongRow(getRstd(), x);
  Value centred = math.sub(x, math.alongRow(getMean(), x));
  Value normal = math.mul(centred, rstd);
  if (Value dy = gradient.of(getOutput())) {
    if (gradient.wants(getInput())) {
      Value scale = getGamma() ? math.alongColumns(math.f32(getGamma()), x) : Value();
      const bool alone = tensorType(getInput()).getShape().back() == 1;
      Value g = !scale ? dy : alone ? math.roundedMul(dy, scale) : math.mul(dy, scale);
      Value level = math.alongRow(math.meanOfRow(g), x);
      Value above = scale && !alone ? math.fma(dy, scale, math.neg(level)) : math.sub(g, level);
      Value slope = math.meanOfRow(math.mul(g, normal));
      slope = math.mul(slope, math.mul(getRstd(), getRstd()));
      // The smaller product is the one to be rounded by itself.
      Value along = math.mul(centred, math.alongRow(slope, x));
      gradient.add(getInput(), math.fma(above, rstd, math.neg(along)));
    }
    if (gradient.wants(getGamma()))
      gradient.add(getGamma(), math.sumOfColumns(math.mul(dy, normal)));
    if (gradient.wants(getBeta()))
      gradient.add(getBeta(), math.sumOfColumns(dy));
  }
  double perElement = 1.0 / tensorType(getInput()).getShape().back();
  if (Value dmean = gradient.of(getMean()))
    gradient.add(getInput(), math.alongRow(math.mul(dmean, perElement), x));
  if (Value drstd = gradient.of(getRstd())) { // d rstd / dx = -rstd^2 n / N
    Value factor = math.mul(math.mul(drstd, math.mul(getRstd(), getRstd())), -perElement);
    gradient.add(getInput(), math.mul(normal, math.alongRow(factor, x)));
  }
  return success();
}

/// A row far from zero, or of equal elements, is hard: its sum has lost the digits that differ.
/// What rounding the mean left over, `rest`, is the mean of the differences from it, which are
/// exact; it corrects mean, variance and result (Chan, Golub and LeVeque, Algorithms for Computing
/// the Sample Variance, 1983). Within four standard deviations of zero it would be but noise.
SmallVector<Value> LayerNormOp::decompose(MathBuilder& math) {
  Value x = math.f32(getInput());
  Value near = math.meanOfRow(x);
  Value centred = math.sub(x, math.alongRow(near, x));
  Value rest = math.meanOfRow(centred);
  Value variance = math.meanOfRow(math.mul(centred, centred));
  Value isNear = math.builder.create<arith::CmpFOp>(math.location, arith::CmpFPredicate::OLE,
                                                    math.mul(near, near), math.mul(variance, 16.0));
  rest = math.select(isNear, math.constant(0.0, rest), rest);
  Value mean = math.add(near, rest);
  variance = math.sub(variance, math.mul(rest, rest));
  variance = math.maximum(variance, math.constant(0.0, variance));
  Value rstd = math.rsqrt(math.add(variance, getEps().convertToFloat()));
  Value shift = math.neg(math.mul(rest, rstd));
  Value y = math.fma(centred, math.alongRow(rstd, x), math.alongRow(shift, x));
  if (getGamma())
    y = math.mul(y, math.alongColumns(math.f32(getGamma()), x));
  if (getBeta())
    y = math.add(y, math.alongColumns(math.f32(getBeta()), x));
  return {math.cast(y, tensorType(getOutput()).getElementType()), mean, rstd};
}
