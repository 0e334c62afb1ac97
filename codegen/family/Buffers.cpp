// See Buffers.h.
#include "codegen/family/Buffers.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kiln::family {

void makeContiguous(TensorInfo& tensor) {
  tensor.strides.assign(tensor.shape.size(), -1);
  std::int64_t stride = 1;
  for (size_t d = tensor.shape.size(); d-- > 0 && stride > 0;) {
    tensor.strides[d] = stride;
    stride = tensor.shape[d].isStatic() ? stride * tensor.shape[d].size : -1;
  }
}

DType dtypeOf(Type element) {
  if (element.isBF16())
    return DType::bf16;
  if (element.isF16())
    return DType::f16;
  if (element.isF64())
    return DType::f64;
  if (element.isF32())
    return DType::f32;
  return element.isInteger(1) ? DType::i1 : element.isInteger(32) ? DType::i32 : DType::i64;
}

double bytesOf(Value value) {
  auto type = ir::tensorType(value);
  double bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 65536.0 : static_cast<double>(size);
  return bytes;
}

BufferInfo describeBuffer(Value value, ir::LayoutAttr layout,
                          llvm::function_ref<Extent(int64_t)> extent) {
  BufferInfo buffer;
  auto type = ir::tensorType(value);
  buffer.tensor.dtype = dtypeOf(type.getElementType());
  for (int64_t d = 0; d < type.getRank(); ++d)
    buffer.tensor.shape.push_back(extent(d));
  buffer.contiguous = !layout || layout.getStrides().empty();
  if (layout)
    buffer.tensor.alignment = layout.getAlign();
  else if (type.getRank() == 0) // may lie anywhere, beside others
    buffer.tensor.alignment = sizeInBytes(buffer.tensor.dtype);
  if (buffer.contiguous)
    makeContiguous(buffer.tensor);
  else
    buffer.tensor.strides.assign(layout.getStrides().begin(), layout.getStrides().end());
  if (layout)
    buffer.tensor.strideMultiple = layout.getMultiple();
  return buffer;
}

BufferNames::BufferNames(func::FuncOp function) {
  for (auto kernel : function.getOps<ir::KernelOp>())
    given.insert(entryName(kernel.getName()) + "_partials");
}

std::string BufferNames::unique(StringRef wanted) {
  std::string name = wanted.str();
  for (int n = 1; !given.insert(name).second; ++n)
    name = wanted.str() + "_" + std::to_string(n);
  return name;
}

std::string entryName(StringRef kernel) {
  std::string entry = "kiln_" + kernel.str();
  for (char& c : entry)
    c = llvm::isAlnum(c) ? c : '_';
  return entry;
}

StringRef nameAttr(DictionaryAttr attributes, StringRef fallback) {
  auto name = attributes ? attributes.getAs<StringAttr>(ir::kNameAttr) : StringAttr();
  return name ? name.getValue() : fallback;
}

} // namespace kiln::family
