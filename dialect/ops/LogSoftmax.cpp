// kiln.log_softmax: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

void LogSoftmaxOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult LogSoftmaxOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  auto shape = tensorType(getInput()).getShape();
  return verifyShape(*this, "output", getOutput(), shape, "the input");
}

void LogSoftmaxOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  results[0] = makeTensor64(x.shape);
  for (int64_t r = 0; r < x.rows(); ++r) {
    ArrayRef<double> row(x.row(r), x.width());
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (double v : row)
      largest = std::isnan(v) || v > largest ? v : largest;
    for (double v : row)
      sum += std::exp(v - largest);
    for (auto [i, v] : llvm::enumerate(row))
      results[0].row(r)[i] = v - largest - std::log(sum);
  }
}

/// dx = dy - exp(y) sum(dy)
LogicalResult LogSoftmaxOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value p = math.exp(getOutput());
  Value sum = math.alongRow(math.sumOfRow(dy), p);
  gradient.add(getInput(), math.sub(dy, math.mul(p, sum)));
  return success();
}

SmallVector<Value> LogSoftmaxOp::decompose(MathBuilder& math) {
  Value x = math.f32(getInput());
  Value centred = math.sub(x, math.alongRow(math.maxOfRow(x), x));
  Type type = tensorType(getOutput()).getElementType();
  Value logSum = math.log(math.sumOfRow(math.expFor(type, centred)));
  Value y = math.sub(centred, math.alongRow(logSum, x));
  return {math.cast(y, type)};
}
