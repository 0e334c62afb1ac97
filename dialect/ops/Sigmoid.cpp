// kiln.sigmoid: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Activation.h"

using namespace mlir;
using namespace kiln::ir;

void SigmoidOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult SigmoidOp::verify() {
  return verifyElementwise(*this, getInput(), getOutput());
}

void SigmoidOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  results[0] = mapElements(*inputs[0], [](double x) { return sigmoid(x); });
}

LogicalResult SigmoidOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  gradient.add(getInput(), math.mul(dy, sigmoidSlope(math, math.f32(getInput()))));
  return success();
}

SmallVector<Value> SigmoidOp::decompose(MathBuilder& math) {
  Value y = sigmoid(math, math.f32(getInput()));
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
