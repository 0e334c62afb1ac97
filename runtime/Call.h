// One call as a route's predicate describes it: what the kernel's key is made of, or why Kiln does
// not take it. Nothing is allocated here: a call that is refused costs next to nothing.
#pragma once

#include "runtime/Backend.h"
#include "runtime/Key.h"
#include "runtime/Site.h"

#include <ATen/core/Tensor.h>
#include <vector>

namespace kiln::runtime {

/// Compared by address; null: none.
using Reason = const char*;
inline constexpr char kEmpty[] = "an empty tensor"; // nothing to do: no error in strict mode either
inline constexpr char kSmall[] = "so few numbers that launches are most of the time"; // nor is this
inline constexpr char kBelow[] = "what ATen makes of it may be taken";                // nor this
inline constexpr char kUndefined[] = "an undefined tensor";
inline constexpr char kDtype[] = "a dtype other than fp32, bf16 and fp16";
inline constexpr char kDtypes[] = "operands of different dtypes";
inline constexpr char kDevices[] = "operands on different devices";
inline constexpr char kShapes[] = "shapes that do not fit each other";
inline constexpr char kStrides[] = "strides that overlap, leave gaps or differ between operands";
inline constexpr char kAligned[] = "a pointer that is no multiple of 16 bytes";
inline constexpr char kTall[] = "more than 2^31 rows";
inline constexpr char kMask[] = "a gradient of an operand that is not there";

struct Call {
  Key key;
  std::int64_t rows = 0;
  std::array<std::int64_t, 3> others{}; // run-time sizes behind the rows; 0: no more of them

  std::int64_t formulaBytes = 0; // that ATen's formula holds, where it is many

  /// All run-time sizes, by symbol.
  std::vector<std::int64_t> sizes() const;

  /// The first operand: its dimensions from `axis` on are a row. May be strided: it is copied then,
  /// as ATen does.
  Reason setRows(const at::Tensor& x, std::int64_t axis);
  /// The same for a row of that shape.
  Reason setRows(const at::Tensor& x, at::IntArrayRef rowShape);
  /// The first operand of elementwise math, dense in memory in whatever order. `copied`: it is,
  /// where its alignment is none.
  Reason setElements(const at::Tensor& x, bool copied = false);
  /// A further operand, number `bit`, on the device of `x`. Null: it is not there.
  Reason add(unsigned bit, const at::Tensor* tensor, const at::Tensor& x, std::int64_t elements,
             at::ScalarType dtype);
  /// The same of a row whose dtype the key has apart, as its dtype number `slot`.
  Reason addRow(unsigned bit, unsigned slot, const at::Tensor* tensor, const at::Tensor& x,
                at::ScalarType dtype);

  bool has(unsigned bit) const { return (key.variant >> bit & 1) != 0; }
  std::int64_t elements() const { return rows * key.width; }

 private:
  Reason setRowsOf(const at::Tensor& x, std::int64_t width);
  Reason setShape(const at::Tensor& x, std::int64_t rowCount, std::int64_t width);
};

/// Null for a type that kernels do not have.
std::optional<DType> dtypeOf(at::ScalarType type);
at::ScalarType scalarTypeOf(DType dtype);

inline Place placeOf(const at::Tensor& tensor) {
  return placeOf(tensor.device());
}

/// Whether kernels can be given its pointer.
bool isAligned(const at::Tensor& tensor);

/// Null for an operand that is not there.
inline const at::Tensor* given(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? &*tensor : nullptr;
}

} // namespace kiln::runtime
