// kiln.broadcast: verifier, folder, fp64 reference, gradient.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void BroadcastOp::getAsmResultNames(OpAsmSetValueNameFn) {}

LogicalResult BroadcastOp::verify() {
  auto from = tensorType(getInput()), to = tensorType(getOutput());
  if (from.getElementType() != to.getElementType())
    return emitOpError("input has elements of type ")
           << from.getElementType() << ", the result " << to.getElementType()
           << "; a broadcast does not convert (use arith.extf or arith.truncf)";
  if (static_cast<int64_t>(getDims().size()) != from.getRank())
    return emitOpError("has ") << getDims().size() << " dims for an input of rank "
                               << from.getRank() << "; name one result dimension for each";
  int64_t previous = -1;
  for (auto [i, d] : llvm::enumerate(getDims())) {
    if (d <= previous || d >= to.getRank())
      return emitOpError("dims [") << getDims() << "] into a result of rank " << to.getRank()
                                   << ": give increasing dimensions from 0 to " << to.getRank() - 1;
    previous = d;
    int64_t size = from.getDimSize(i);
    if (size != 1 && size != to.getDimSize(d))
      return emitOpError("dimension ")
             << i << " of the input and dimension " << d
             << " of the result differ in size; they must agree, or the input's be 1";
  }
  if (!to.hasStaticShape() && !getLike())
    return emitOpError("the result has dynamic sizes; name a tensor of that shape with 'like'");
  return verifyShape(*this, "like", getLike(), to.getShape(), "the result");
}

Value BroadcastOp::shapeSource() {
  return getLike();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getOutput().getType() ? getInput() : OpFoldResult();
}

void BroadcastOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  SmallVector<int64_t> shape(tensorType(getOutput()).getShape());
  if (getLike())
    shape = inputs[1]->shape;
  SmallVector<int64_t> strides(shape.size(), 0);
  for (int64_t i = x.shape.size() - 1, stride = 1; i >= 0; --i) {
    strides[getDims()[i]] = x.shape[i] == 1 ? 0 : stride;
    stride *= x.shape[i];
  }
  Tensor64& out = results[0] = makeTensor64(shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t at = 0, rest = i;
    for (int64_t d = shape.size() - 1; d >= 0; --d) {
      at += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    out.data[i] = x.data[at];
  }
}

/// What was repeated is summed. Dimensions of size 1 that grew keep their place.
LogicalResult BroadcastOp::gradient(Gradient& gradient) {
  Value d = gradient.of(getOutput());
  if (!d || !gradient.wants(getInput()))
    return success();
  auto from = tensorType(getInput()), to = tensorType(getOutput());
  SmallVector<int64_t> summed;
  for (int64_t dim = 0; dim < to.getRank(); ++dim) {
    auto* at = llvm::find(getDims(), dim);
    if (at == getDims().end() || from.getDimSize(at - getDims().begin()) != to.getDimSize(dim))
      summed.push_back(dim);
  }
  Value total = gradient.math.sumOver(d, summed);
  if (tensorType(total).getRank() != from.getRank()) {
    SmallVector<int64_t> kept;
    for (auto [i, dim] : llvm::enumerate(getDims()))
      if (!llvm::is_contained(summed, dim))
        kept.push_back(i);
    total = gradient.math.broadcast(total, kept, getInput());
  }
  gradient.add(getInput(), total);
  return success();
}
