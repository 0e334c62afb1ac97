// kiln.geglu: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Activation.h"

using namespace mlir;
using namespace kiln::ir;

void GegluOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult GegluOp::verify() {
  if (failed(verifyElementwise(*this, getInput(), getOutput())))
    return failure();
  return verifyShape(*this, "gate", getGate(), tensorType(getInput()).getShape(), "the input");
}

void GegluOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  results[0] = mapElements(*inputs[0], [&](double gate) { return gelu(gate, getApproximate()); });
  for (int64_t i = 0; i < results[0].size(); ++i)
    results[0].data[i] *= inputs[1]->data[i];
}

LogicalResult GegluOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy)
    return success();
  MathBuilder& math = gradient.math;
  Value gate = math.f32(getGate());
  if (gradient.wants(getInput()))
    gradient.add(getInput(), math.mul(dy, gelu(math, gate, getApproximate())));
  if (gradient.wants(getGate())) {
    Value slope = geluSlope(math, gate, getApproximate());
    gradient.add(getGate(), math.mul(math.mul(dy, getInput()), slope));
  }
  return success();
}

SmallVector<Value> GegluOp::decompose(MathBuilder& math) {
  Value y = math.mul(gelu(math, math.f32(getGate()), getApproximate()), getInput());
  return {math.cast(y, tensorType(getOutput()).getElementType())};
}
