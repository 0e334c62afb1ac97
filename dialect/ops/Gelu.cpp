// kiln.gelu: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Activation.h"

using namespace mlir;
using namespace kiln::ir;

void GeluOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult GeluOp::verify() {
  return verifyElementwise(*this, getInput(), getOutput());
}

void GeluOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  results[0] = mapElements(*inputs[0], [&](double x) { return gelu(x, getApproximate()); });
}

LogicalResult GeluOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value slope = geluSlope(math, math.f32(getInput()), getApproximate());
  gradient.add(getInput(), math.mul(dy, slope));
  return success();
}

SmallVector<Value> GeluOp::decompose(MathBuilder& math) {
  Value y = gelu(math, math.f32(getInput()), getApproximate());
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
