// kiln.random: verifier, fp64 reference, gradient.
#include "dialect/Random.h"
#include "dialect/Kiln.h"

using namespace mlir;
using namespace kiln::ir;

void RandomOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "u");
}

LogicalResult RandomOp::verify() {
  auto type = tensorType(getOutput());
  if (getBits() != 16 && getBits() != 32)
    return emitOpError("a number has 16 or 32 bits, not ") << getBits();
  if (!getLike()) {
    if (!type.hasStaticShape())
      return emitOpError("the result has dynamic sizes; name a tensor of that shape with 'like'");
    return success();
  }
  auto like = tensorType(getLike());
  if (like.getRank() != type.getRank())
    return emitOpError("like has rank ") << like.getRank() << ", the result " << type.getRank();
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (type.getDimSize(d) != 1 && type.getDimSize(d) != like.getDimSize(d))
      return emitOpError("dimension ")
             << d << " of the result and of like differ in size; they must agree, or the result's "
             << "be 1";
  return success();
}

void RandomOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  auto type = tensorType(getOutput());
  SmallVector<int64_t> shape(type.getShape());
  for (auto [d, size] : llvm::enumerate(shape))
    if (ShapedType::isDynamic(size))
      size = inputs[2]->shape[d];
  Tensor64& out = results[0] = makeTensor64(shape);
  RandomNumbers random(*inputs[0], *inputs[1], getBits());
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] =
        type.getElementType().isF32() ? random.uniform(i) : static_cast<int32_t>(random.word(i));
}

Value RandomOp::shapeSource() {
  return getLike();
}

LogicalResult RandomOp::gradient(Gradient&) {
  return success(); // seed and offset are integers
}
