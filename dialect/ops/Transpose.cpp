// kiln.transpose: verifier, folder, fp64 reference, gradient.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void TransposeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "transposed");
}

LogicalResult TransposeOp::verify() {
  auto from = tensorType(getInput()), to = tensorType(getOutput());
  SmallVector<int64_t> sorted(getPermutation()), shape;
  llvm::sort(sorted);
  if (sorted != dimsFrom(0, from.getRank()))
    return emitOpError("permutation [")
           << getPermutation() << "] of a tensor of rank " << from.getRank()
           << ": name each dimension from 0 to " << from.getRank() - 1 << " once";
  if (from.getElementType() != to.getElementType())
    return emitOpError("input has elements of type ")
           << from.getElementType() << ", the result " << to.getElementType()
           << "; a transpose does not convert (use arith.extf or arith.truncf)";
  for (int64_t d : getPermutation())
    shape.push_back(from.getDimSize(d));
  return verifyShape(*this, "output", getOutput(), shape, "the transposed input");
}

/// The same order is the input; two transposes are one.
OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getInput();
  auto type = tensorType(getOutput());
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getInput()))
    return splat.resizeSplat(type);
  auto inner = getInput().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> both;
  for (int64_t d : getPermutation())
    both.push_back(inner.getPermutation()[d]);
  setPermutation(both);
  getInputMutable().assign(inner.getInput());
  return getOutput();
}

void TransposeOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  SmallVector<int64_t> inner(x.shape.size(), 1), shape, strides;
  for (int64_t d = x.shape.size() - 2; d >= 0; --d)
    inner[d] = inner[d + 1] * x.shape[d + 1];
  for (int64_t d : getPermutation()) {
    shape.push_back(x.shape[d]);
    strides.push_back(inner[d]);
  }
  Tensor64& y = results[0] = makeTensor64(shape);
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t at = 0, rest = i;
    for (int64_t d = shape.size() - 1; d >= 0; rest /= shape[d--])
      at += rest % shape[d] * strides[d];
    y.data[i] = x.data[at];
  }
}

LogicalResult TransposeOp::gradient(Gradient& gradient) {
  Value dy = gradient.of(getOutput());
  if (!dy)
    return success();
  SmallVector<int64_t> back(getPermutation().size());
  for (auto [k, d] : llvm::enumerate(getPermutation()))
    back[d] = k;
  auto type = tensorType(getInput()).clone(tensorType(dy).getElementType());
  gradient.add(getInput(),
               gradient.math.builder.create<TransposeOp>(gradient.math.location, type, dy, back));
  return success();
}
