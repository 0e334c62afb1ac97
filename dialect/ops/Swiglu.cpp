// kiln.swiglu: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Activation.h"

using namespace mlir;
using namespace kiln::ir;

void SwigluOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult SwigluOp::verify() {
  if (failed(verifyElementwise(*this, getInput(), getOutput())))
    return failure();
  return verifyShape(*this, "gate", getGate(), tensorType(getInput()).getShape(), "the input");
}

void SwigluOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  results[0] = mapElements(*inputs[0], [](double gate) { return silu(gate); });
  for (int64_t i = 0; i < results[0].size(); ++i)
    results[0].data[i] *= inputs[1]->data[i];
}

LogicalResult SwigluOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy)
    return success();
  MathBuilder& math = gradient.math;
  Value gate = math.f32(getGate());
  if (gradient.wants(getInput())) // as a product, of the sigmoid that the slope needs as well
    gradient.add(getInput(), math.mul(dy, math.mul(gate, sigmoid(math, gate))));
  if (gradient.wants(getGate()))
    gradient.add(getGate(), math.mul(math.mul(dy, getInput()), siluSlope(math, gate)));
  return success();
}

SmallVector<Value> SwigluOp::decompose(MathBuilder& math) {
  Value y = math.mul(silu(math, math.f32(getGate())), getInput());
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
