// kiln.gather: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;
using namespace kiln::ir;

void GatherOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "gathered");
}

LogicalResult GatherOp::verify() {
  if (failed(verifyTable(*this, "table", getTable())) ||
      failed(verifyPadding(*this, getIndex(), getPaddingIndex())))
    return failure();
  auto table = tensorType(getTable());
  Type element = tensorType(getOutput()).getElementType();
  if (element != table.getElementType())
    return emitOpError("output has elements of type ")
           << element << ", the table " << table.getElementType() << "; a gather does not convert";
  SmallVector<int64_t> shape(tensorType(getIndex()).getShape());
  shape.push_back(table.getDimSize(1));
  return verifyShape(*this, "output", getOutput(), shape, "index and table");
}

void GatherOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64 &table = *inputs[0], &index = *inputs[1];
  SmallVector<int64_t> shape(index.shape);
  shape.push_back(table.width());
  Tensor64& out = results[0] = makeTensor64(shape, std::numeric_limits<double>::quiet_NaN());
  for (int64_t r = 0; r < index.size(); ++r) {
    const auto at = static_cast<int64_t>(index.data[r]);
    if (getPaddingIndex() && at == static_cast<int64_t>(*getPaddingIndex()))
      std::fill_n(out.row(r), table.width(), 0.0);
    else if (at >= 0 && at < table.shape[0])
      std::copy_n(table.row(at), table.width(), out.row(r));
  }
}

LogicalResult GatherOp::gradient(Gradient& gradient) {
  Value d = gradient.of(getOutput());
  if (!d || !gradient.wants(getTable()))
    return success();
  MathBuilder& math = gradient.math;
  auto type = tensorType(getTable());
  auto widen = d.getDefiningOp<arith::ExtFOp>();
  Value rows = widen && tensorType(widen.getIn()).getElementType() == type.getElementType()
                   ? widen.getIn()
                   : math.cast(d, type.getElementType());
  gradient.add(getTable(),
               math.builder.create<SegmentSumOp>(
                   math.location, type.clone(math.builder.getF32Type()), rows, getIndex(),
                   type.hasStaticShape() ? Value() : getTable(), getPaddingIndexAttr()));
  return success();
}

/// Padding is a selection: kernels know only tables.
SmallVector<Value> GatherOp::decompose(MathBuilder& math) {
  if (!getPaddingIndex())
    return {};
  auto type = tensorType(getOutput());
  Value rows =
      math.builder.create<GatherOp>(math.location, type, getTable(), getIndex(), IntegerAttr());
  Value isPadding = math.equal(getIndex(), math.integer(*getPaddingIndex(), getIndex()));
  Value zero = math.cast(math.constant(0.0, rows), type.getElementType());
  return {math.select(math.alongRow(isPadding, rows), zero, rows)};
}
