// kiln.pick: verifier, fp64 reference, gradient.
#include "dialect/Kiln.h"

#include <limits>

using namespace mlir;
using namespace kiln::ir;

void PickOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "picked");
}

LogicalResult PickOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  Type element = tensorType(getInput()).getElementType();
  if (tensorType(getOutput()).getElementType() != element)
    return emitOpError("the result has elements of ")
           << tensorType(getOutput()).getElementType() << ", the input of " << element;
  auto rows = tensorType(getInput()).getShape().drop_back();
  return success(succeeded(verifyShape(*this, "index", getIndex(), rows, "the input")) &&
                 succeeded(verifyShape(*this, "the result", getOutput(), rows, "the input")));
}

void PickOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const bool isFloat = isa<FloatType>(tensorType(getInput()).getElementType());
  results[0] = makeTensor64(ArrayRef(x.shape).drop_back());
  for (int64_t r = 0; r < x.rows(); ++r) {
    const auto at = static_cast<int64_t>(inputs[1]->data[r]);
    results[0].data[r] = at >= 0 && at < x.width() ? x.row(r)[at]
                         : isFloat                 ? std::numeric_limits<double>::quiet_NaN()
                                                   : 0.0;
  }
}

LogicalResult PickOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  Value chosen = math.isColumn(getIndex(), x);
  gradient.add(getInput(), math.select(chosen, math.alongRow(dy, x), math.constant(0.0, x)));
  return success();
}
