// kiln.partner: verifier, folder, fp64 reference, gradient.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void PartnerOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "partner");
}

LogicalResult PartnerOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  int64_t width = tensorType(getInput()).getShape().back();
  if (getPairs().getWidth() > width)
    return emitOpError("pairs of ") << getPairs().getWidth() << " columns of a row of " << width;
  if (getInput().getType() != getOutput().getType())
    return emitOpError("input has type ") << getInput().getType() << ", the result "
                                          << getOutput().getType() << "; they must agree";
  return success();
}

/// Twice is not at all.
OpFoldResult PartnerOp::fold(FoldAdaptor adaptor) {
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getInput()))
    return splat;
  auto inner = getInput().getDefiningOp<PartnerOp>();
  return inner && inner.getPairs() == getPairs() ? inner.getInput() : OpFoldResult();
}

void PartnerOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  Tensor64& y = results[0] = makeTensor64(x.shape);
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t j = 0; j < x.width(); ++j)
      y.row(r)[j] = x.row(r)[getPairs().partnerOf(j)];
}

LogicalResult PartnerOp::gradient(Gradient& gradient) {
  if (Value dy = gradient.of(getOutput()))
    gradient.add(getInput(), gradient.math.partner(dy, getPairs()));
  return success();
}
