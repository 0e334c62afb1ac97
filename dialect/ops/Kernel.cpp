// kiln.kernel: a region of its own, with the results of its yield.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

LogicalResult KernelOp::verify() {
  if (getName().empty())
    return emitOpError("has an empty name; it becomes the kernel's entry point");
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block& block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("the region's arguments do not have the types of the inputs");
  if (block.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError("the yielded values do not have the types of the results");
  return success();
}

void KernelOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  FailureOr<std::vector<Tensor64>> outputs = evaluate(getBody().front(), inputs);
  if (succeeded(outputs))
    llvm::move(*outputs, results.begin());
}

LogicalResult KernelOp::gradient(Gradient&) {
  return emitOpError("has no gradient; differentiate before fusing (kiln-differentiate runs "
                     "ahead of kiln-fuse)");
}
