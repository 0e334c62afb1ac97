// kiln.silu: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Activation.h"

using namespace mlir;
using namespace kiln::ir;

void SiluOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult SiluOp::verify() {
  return verifyElementwise(*this, getInput(), getOutput());
}

void SiluOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  results[0] = mapElements(*inputs[0], [](double x) { return silu(x); });
}

LogicalResult SiluOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  gradient.add(getInput(), math.mul(dy, siluSlope(math, math.f32(getInput()))));
  return success();
}

SmallVector<Value> SiluOp::decompose(MathBuilder& math) {
  Value y = silu(math, math.f32(getInput()));
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
