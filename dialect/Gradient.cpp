// See Gradient.h.
#include "dialect/Kiln.h"
#include "dialect/Scalar.h"

using namespace mlir;

namespace kiln::ir {

void Gradient::add(Value operand, Value gradient) {
  if (!wants(operand))
    return;
  Value& sum = gradients_[operand];
  sum = sum ? math.add(sum, gradient) : math.f32(gradient);
}

LogicalResult differentiate(Operation* op, Gradient& gradient) {
  if (auto named = dyn_cast<KilnOpInterface>(op))
    return named.gradient(gradient);
  const ScalarOp* scalar = findScalarOp(op->getName().getStringRef());
  if (!scalar || !scalar->gradient)
    return op->emitError("'") << op->getName().getStringRef()
                              << "' has no gradient; write this part with other operations, or "
                                 "compile without the backward";
  scalar->gradient(op, gradient);
  return success();
}

} // namespace kiln::ir
