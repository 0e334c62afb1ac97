// kiln.index: verifier, fp64 reference.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void IndexOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "index");
}

LogicalResult IndexOp::verify() {
  auto type = tensorType(getOutput());
  if (type.getRank() == 0)
    return emitOpError("the result has rank 0; an index runs along a dimension");
  if (static_cast<int64_t>(getDim()) < 0 || static_cast<int64_t>(getDim()) >= type.getRank())
    return emitOpError("dim ") << static_cast<int64_t>(getDim()) << " of a tensor of rank "
                               << type.getRank() << ": give one from 0 to " << type.getRank() - 1;
  if (!type.hasStaticShape() && !getLike())
    return emitOpError("the result has dynamic sizes; name a tensor of that shape with 'like'");
  return verifyShape(*this, "like", getLike(), type.getShape(), "the result");
}

void IndexOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  SmallVector<int64_t> shape(tensorType(getOutput()).getShape());
  if (getLike())
    shape = inputs[0]->shape;
  Tensor64& out = results[0] = makeTensor64(shape);
  int64_t inner = 1;
  for (int64_t size : ArrayRef(shape).drop_front(getDim() + 1))
    inner *= size;
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = static_cast<double>(i / inner % shape[getDim()]);
}

LogicalResult IndexOp::gradient(Gradient&) {
  return success();
}
