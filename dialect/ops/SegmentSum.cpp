// kiln.segment_sum: verifier, fp64 reference, gradient.
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void SegmentSumOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "sum");
}

LogicalResult SegmentSumOp::verify() {
  if (failed(verifyRow(*this, getInput())) || failed(verifyTable(*this, "output", getOutput())) ||
      failed(verifyPadding(*this, getIndex(), getPaddingIndex())))
    return failure();
  auto input = tensorType(getInput()), output = tensorType(getOutput());
  if (input.getDimSize(input.getRank() - 1) != output.getDimSize(1))
    return emitOpError("output has rows of ")
           << output.getDimSize(1) << " elements, the input of "
           << input.getDimSize(input.getRank() - 1) << "; they must agree";
  if (!output.hasStaticShape() && !getLike())
    return emitOpError("the number of segments is dynamic; name a tensor of the shape of the "
                       "result with 'like'");
  if (failed(verifyShape(*this, "like", getLike(), output.getShape(), "the result")))
    return failure();
  return verifyShape(*this, "index", getIndex(), input.getShape().drop_back(), "the input");
}

void SegmentSumOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64 &x = *inputs[0], &index = *inputs[1];
  int64_t segments = getLike() ? inputs[2]->shape[0] : tensorType(getOutput()).getDimSize(0);
  Tensor64& out = results[0] = makeTensor64({segments, x.width()});
  for (int64_t r = 0; r < index.size(); ++r) {
    const auto at = static_cast<int64_t>(index.data[r]);
    if (at < 0 || at >= segments ||
        (getPaddingIndex() && at == static_cast<int64_t>(*getPaddingIndex())))
      continue;
    for (int64_t i = 0; i < x.width(); ++i)
      out.row(at)[i] += x.row(r)[i];
  }
}

/// Each row gets the gradient of its segment; one that names none gets zero.
LogicalResult SegmentSumOp::gradient(Gradient& gradient) {
  Value d = gradient.of(getOutput());
  if (!d || !gradient.wants(getInput()))
    return success();
  auto type = tensorType(d);
  if (type.isDynamicDim(0))
    return emitOpError("the gradient of a sum over a number of segments that is known at run time "
                       "only; give it as a constant");
  MathBuilder& math = gradient.math;
  Value rows = math.builder.create<GatherOp>(math.location,
                                             tensorType(getInput()).clone(type.getElementType()), d,
                                             getIndex(), getPaddingIndexAttr());
  Value inside = math.inRange(getIndex(), math.integer(type.getDimSize(0), getIndex()));
  gradient.add(getInput(),
               math.select(math.alongRow(inside, rows), rows, math.constant(0.0, rows)));
  return success();
}
