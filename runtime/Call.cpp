// See Call.h.
#include "runtime/Call.h"

#include <bit>
#include <fmt/format.h>
#include <numeric>

namespace kiln::runtime {

namespace {

constexpr std::int64_t maxRows = std::int64_t(1) << 31;

Reason checkLayout(const at::Tensor& tensor) {
  if (!tensor.defined())
    return kUndefined;
  return tensor.layout() == at::kStrided ? nullptr : kStrides;
}

/// Of rows that no kernel reduces.
Reason tooWide() {
  static const std::string text = fmt::format("rows wider than {}", maxRowWidth);
  return text.c_str();
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

std::vector<std::int64_t> Call::sizes() const {
  std::vector<std::int64_t> all = {rows};
  for (std::int64_t size : others)
    if (size != 0)
      all.push_back(size);
  return all;
}

Reason Call::setShape(const at::Tensor& x, std::int64_t rowCount, std::int64_t width) {
  if (rowCount > maxRows)
    return kTall;
  if (width > maxRowWidth)
    return tooWide();
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

Reason Call::setRowsOf(const at::Tensor& x, std::int64_t width) {
  if (Reason why = check(x))
    return why;
  const std::int64_t elements = x.numel();
  return elements == 0 ? kEmpty : setShape(x, elements / width, width);
}

Reason Call::setRows(const at::Tensor& x, std::int64_t axis) {
  if (!x.defined())
    return kUndefined;
  const at::IntArrayRef sizes = x.sizes();
  if (axis < 0 || axis > x.dim())
    return kShapes;
  std::int64_t width = 1;
  for (auto d = static_cast<std::size_t>(axis); d < sizes.size(); ++d)
    width *= sizes[d];
  return setRowsOf(x, width);
}

Reason Call::setRows(const at::Tensor& x, at::IntArrayRef rowShape) {
  if (!x.defined())
    return kUndefined;
  const at::IntArrayRef sizes = x.sizes();
  if (rowShape.empty() || rowShape.size() > sizes.size())
    return kShapes;
  const std::size_t axis = sizes.size() - rowShape.size();
  std::int64_t width = 1;
  for (std::size_t d = 0; d < rowShape.size(); ++d) {
    if (sizes[axis + d] != rowShape[d])
      return kShapes;
    width *= rowShape[d];
  }
  return setRowsOf(x, width);
}

/// Rows of elementwise math are any: long ones of one width for most sizes, so that few kernels
/// serve many shapes; else the tensor's own, or, where these are wider than kernels take, the
/// longest of a power of two, of which there are few again.
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
  if (elements % usual == 0)
    return setShape(x, elements / usual, usual);
  const std::int64_t own = x.dim() == 0 ? 1 : x.sizes().back();
  const std::int64_t width = own <= maxRowWidth ? own : std::gcd(elements, usual);
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
