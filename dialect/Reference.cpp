// See Reference.h.
#include "dialect/Kiln.h"
#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace kiln::ir {

Tensor64 makeTensor64(ArrayRef<int64_t> shape, double fill) {
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  return {SmallVector<int64_t>(shape), std::vector<double>(size, fill)};
}

Reduced::Reduced(ArrayRef<int64_t> of, ArrayRef<int64_t> dims)
    : extents(of), strides(of.size(), 0) {
  for (auto [d, extent] : llvm::enumerate(of))
    if (llvm::is_contained(dims, static_cast<int64_t>(d)))
      terms *= extent;
    else
      shape.push_back(extent);
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(of.size()) - 1; d >= 0; --d)
    if (!llvm::is_contained(dims, d)) {
      strides[d] = stride;
      stride *= of[d];
    }
}
int64_t Reduced::placeOf(int64_t element) const {
  int64_t place = 0;
  for (int64_t d = static_cast<int64_t>(extents.size()) - 1; d >= 0; element /= extents[d--])
    place += element % extents[d] * strides[d];
  return place;
}

static FailureOr<Tensor64> evaluateConstant(arith::ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements)
    return op.emitError("only constants of tensors have a reference"), failure();
  Tensor64 result = makeTensor64(elements.getType().getShape());
  size_t i = 0;
  if (isa<FloatType>(elements.getElementType()))
    for (const APFloat& value : elements.getValues<APFloat>()) {
      APFloat wide = value;
      bool lossy;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      result.data[i++] = wide.convertToDouble();
    }
  else
    for (const APInt& value : elements.getValues<APInt>())
      result.data[i++] = value.getBitWidth() == 1 ? static_cast<double>(value.getZExtValue())
                                                  : static_cast<double>(value.getSExtValue());
  return result;
}

static Tensor64 evaluateScalar(Operation* op, const ScalarOp& scalar,
                               ArrayRef<const Tensor64*> inputs) {
  Tensor64 result = makeTensor64(inputs[0]->shape);
  SmallVector<double, 3> operands(inputs.size());
  for (int64_t i = 0; i < result.size(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k)
      operands[k] = inputs[k]->data[i];
    result.data[i] = scalar.reference(op, operands.data());
  }
  return result;
}

/// Whether no operation behind `op` reads the value.
static bool isDone(Value value, Operation* op) {
  return llvm::none_of(value.getUsers(),
                       [&](Operation* user) { return op->isBeforeInBlock(user); });
}

FailureOr<std::vector<Tensor64>> evaluate(Block& block, ArrayRef<Tensor64> inputs,
                                          llvm::function_ref<void(Value, Tensor64&)> afterEach) {
  llvm::DenseMap<Value, Tensor64> values; // as long as somebody reads them
  auto find = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? &inputs[argument.getArgNumber()] : &values.at(value);
  };
  for (Operation& op : block.without_terminator()) {
    SmallVector<const Tensor64*> operands;
    for (Value operand : op.getOperands())
      operands.push_back(find(operand));
    std::vector<Tensor64> results(op.getNumResults());
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      FailureOr<Tensor64> value = evaluateConstant(constant);
      if (failed(value))
        return failure();
      results[0] = std::move(*value);
    } else if (auto named = dyn_cast<KilnOpInterface>(op)) {
      named.reference(operands, results);
    } else if (const ScalarOp* scalar = findScalarOp(op.getName().getStringRef())) {
      results[0] = evaluateScalar(&op, *scalar, operands);
    } else {
      return op.emitError("'") << op.getName().getStringRef() << "' has no fp64 reference",
             failure();
    }
    for (auto [value, result] : llvm::zip_equal(op.getResults(), results)) {
      if (afterEach)
        afterEach(value, result);
      values[value] = std::move(result);
    }
    for (Value operand : op.getOperands())
      if (isDone(operand, &op))
        values.erase(operand);
  }
  std::vector<Tensor64> outputs;
  for (Value value : block.getTerminator()->getOperands())
    outputs.push_back(*find(value));
  return outputs;
}

} // namespace kiln::ir
