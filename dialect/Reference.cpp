// See Reference.h.
#include "dialect/Kiln.h"
#include "dialect/Ranges.h"
#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace mlir;

namespace kiln::ir {

Tensor64 unsetTensor64(ArrayRef<int64_t> shape) {
  Tensor64 made;
  made.shape.assign(shape.begin(), shape.end());
  made.data.resize(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  return made;
}
Tensor64 makeTensor64(ArrayRef<int64_t> shape, double fill) {
  Tensor64 made = unsetTensor64(shape);
  inRanges(made.size(), [&](int64_t begin, int64_t end) {
    std::fill(made.data.begin() + begin, made.data.begin() + end, fill);
  });
  return made;
}

/// Neighbours that are reduced, and neighbours that are not, are one dimension.
Reduced::Reduced(ArrayRef<int64_t> of, ArrayRef<int64_t> dims) {
  SmallVector<bool> isReduced;
  for (auto [d, extent] : llvm::enumerate(of)) {
    const bool reduces = llvm::is_contained(dims, static_cast<int64_t>(d));
    if (reduces)
      terms *= extent;
    else
      shape.push_back(extent);
    if (!isReduced.empty() && isReduced.back() == reduces) {
      extents.back() *= extent;
      continue;
    }
    isReduced.push_back(reduces);
    extents.push_back(extent);
  }
  strides.assign(extents.size(), 0);
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;)
    if (!isReduced[d]) {
      strides[d] = stride;
      stride *= extents[d];
    }
}
int64_t Reduced::placeOf(int64_t element) const {
  int64_t place = 0;
  for (int64_t d = static_cast<int64_t>(extents.size()) - 1; d >= 0; element /= extents[d--])
    place += element % extents[d] * strides[d];
  return place;
}

void Reduced::each(llvm::function_ref<void(int64_t place, int64_t element)> add) const {
  int64_t places = 1, size = 1;
  for (auto [extent, stride] : llvm::zip_equal(extents, strides)) {
    places *= stride != 0 ? extent : 1;
    size *= extent;
  }
  const bool isOfRows = extents.size() == 2 && strides.back() == 0;
  if (!isOfRows) {
    for (int64_t i = 0; i < size; ++i)
      add(placeOf(i), i);
    return;
  }
  inRanges(places, rangesOf(places, kWorthAThread / std::max<int64_t>(terms, 1)),
           [&](int64_t, int64_t place, int64_t end) {
             for (; place < end; ++place)
               for (int64_t i = place * terms; i < (place + 1) * terms; ++i)
                 add(place, i);
           });
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
  Tensor64 result = unsetTensor64(inputs[0]->shape);
  inRanges(result.size(), [&](int64_t i, int64_t end) {
    SmallVector<double, 3> operands(inputs.size());
    for (; i < end; ++i) {
      for (size_t k = 0; k < inputs.size(); ++k)
        operands[k] = inputs[k]->data[i];
      result.data[i] = scalar.reference(op, operands.data());
    }
  });
  return result;
}

/// What the reference does nothing for.
static bool isCast(Operation& op) {
  return isa<arith::ExtFOp, arith::TruncFOp>(op);
}

/// Whether no operation behind `op` reads the value.
static bool isDone(Value value, Operation* op) {
  return llvm::none_of(value.getUsers(),
                       [&](Operation* user) { return op->isBeforeInBlock(user); });
}

FailureOr<std::vector<Tensor64>> evaluate(Block& block, ArrayRef<Tensor64> inputs,
                                          llvm::function_ref<void(Value, Tensor64&)> afterEach) {
  return evaluate(block, SmallVector<const Tensor64*>(llvm::make_pointer_range(inputs)), afterEach);
}

FailureOr<std::vector<Tensor64>> evaluate(Block& block, ArrayRef<const Tensor64*> inputs,
                                          llvm::function_ref<void(Value, Tensor64&)> afterEach) {
  llvm::DenseMap<Value, Tensor64> values; // as long as somebody reads them
  auto find = [&](Value value) -> const Tensor64* {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? inputs[argument.getArgNumber()] : &values.at(value);
  };
  for (Operation& op : block.without_terminator()) {
    SmallVector<const Tensor64*> operands;
    for (Value operand : op.getOperands())
      operands.push_back(find(operand));
    std::vector<Tensor64> results(op.getNumResults());
    if (isCast(op) && !isa<BlockArgument>(op.getOperand(0)) && isDone(op.getOperand(0), &op)) {
      results[0] = std::move(values[op.getOperand(0)]);
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
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
  for (OpOperand& result : block.getTerminator()->getOpOperands()) {
    const Value value = result.get();
    const bool isLast = llvm::none_of(value.getUses(), [&](OpOperand& use) {
      return use.getOwner() == result.getOwner() &&
             use.getOperandNumber() > result.getOperandNumber();
    });
    if (isa<BlockArgument>(value) || !isLast)
      outputs.push_back(*find(value));
    else
      outputs.push_back(std::move(values[value]));
  }
  return outputs;
}

} // namespace kiln::ir
