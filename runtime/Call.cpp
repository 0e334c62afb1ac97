// See Call.h.
#include "runtime/Call.h"

#include <bit>

namespace kiln::runtime {

namespace {

constexpr std::int64_t maxWidth = 65536;
constexpr std::int64_t maxRows = std::int64_t(1) << 31;

Reason checkLayout(const at::Tensor& tensor) {
  if (!tensor.defined())
    return kUndefined;
  return tensor.layout() == at::kStrided ? nullptr : kStrides;
}

/// What every operand must be. A strided one is copied, and the copy is aligned.
Reason check(const at::Tensor& tensor) {
  if (Reason why = checkLayout(tensor))
    return why;
  if (tensor.is_contiguous() && !isAligned(tensor))
    return kAligned;
  return nullptr;
}

} // namespace

bool isAligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

std::optional<DType> dtypeOf(at::ScalarType type) {
  switch (type) {
  case at::kFloat:
    return DType::f32;
  case at::kBFloat16:
    return DType::bf16;
  case at::kHalf:
    return DType::f16;
  default:
    return std::nullopt;
  }
}

at::ScalarType scalarTypeOf(DType dtype) {
  return dtype == DType::f32 ? at::kFloat : dtype == DType::bf16 ? at::kBFloat16 : at::kHalf;
}

Reason Call::setShape(const at::Tensor& x, std::int64_t rowCount, std::int64_t width) {
  if (rowCount > maxRows)
    return kTall;
  if (width > maxWidth)
    return kWide;
  const auto dtype = dtypeOf(x.scalar_type());
  if (!dtype)
    return kDtype;
  rows = rowCount;
  key.width = width;
  key.dtypes[0] = *dtype;
  key.rowClass = static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(rowCount)));
  key.device = static_cast<std::uint8_t>(std::max<int>(x.device().index(), 0));
  key.variant |= 1;
  return nullptr;
}

Reason Call::setRows(const at::Tensor& x, std::int64_t axis) {
  if (Reason why = check(x))
    return why;
  if (x.numel() == 0)
    return kEmpty;
  if (axis < 0 || axis > x.dim())
    return kShapes;
  std::int64_t width = 1;
  for (std::int64_t d = axis; d < x.dim(); ++d)
    width *= x.size(d);
  return setShape(x, x.numel() / width, width);
}

Reason Call::setRows(const at::Tensor& x, at::IntArrayRef rowShape) {
  if (!x.defined())
    return kUndefined;
  const std::int64_t axis = x.dim() - static_cast<std::int64_t>(rowShape.size());
  if (rowShape.empty() || axis < 0 || x.sizes().slice(static_cast<std::size_t>(axis)) != rowShape)
    return kShapes;
  return setRows(x, axis);
}

/// Rows of elementwise math are any: long ones of one width for most sizes, so that few kernels
/// serve many shapes; else the tensor's own.
Reason Call::setElements(const at::Tensor& x, bool copied) {
  constexpr std::int64_t usual = 1024;
  if (Reason why = checkLayout(x))
    return why;
  const std::int64_t elements = x.numel();
  if (elements == 0)
    return kEmpty;
  if (!x.is_non_overlapping_and_dense())
    return kStrides;
  if (!copied && !isAligned(x))
    return kAligned;
  const std::int64_t own = x.dim() == 0 ? 1 : x.size(-1);
  const std::int64_t width = elements % usual == 0 ? usual : own;
  return setShape(x, elements / width, width);
}

Reason Call::add(unsigned bit, const at::Tensor* tensor, const at::Tensor& x, std::int64_t elements,
                 at::ScalarType dtype) {
  if (!tensor)
    return nullptr;
  if (Reason why = check(*tensor))
    return why;
  if (tensor->scalar_type() != dtype)
    return kDtypes;
  if (tensor->device() != x.device())
    return kDevices;
  if (tensor->numel() != elements)
    return kShapes;
  key.variant |= 1U << bit;
  return nullptr;
}

Reason Call::addRow(unsigned bit, unsigned slot, const at::Tensor* tensor, const at::Tensor& x,
                    at::ScalarType dtype) {
  if (!tensor)
    return nullptr;
  const auto known = dtypeOf(dtype);
  if (!known)
    return kDtype;
  key.dtypes[slot] = *known;
  return add(bit, tensor, x, key.width, dtype);
}

} // namespace kiln::runtime
