// The limits of cuTensorMapEncodeTiled, in words, and the call itself.
#include "codegen/backend/TensorMap.h"

#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <vector>

namespace kiln {

namespace {

constexpr std::uint32_t maxBox = 256;
constexpr std::uint64_t maxSize = std::uint64_t(1) << 32, maxStride = std::uint64_t(1) << 40;
constexpr std::uint64_t unit =
    16; // bytes that addresses, strides and rows of a box are multiples of

/// CUtensorMapDataType.
int typeOf(DType dtype) {
  switch (dtype) {
  case DType::i1:
    return 0;
  case DType::i32:
    return 3;
  case DType::i64:
    return 5;
  case DType::f16:
    return 6;
  case DType::f32:
    return 7;
  case DType::f64:
    return 8;
  case DType::bf16:
    return 9;
  }
  return 0;
}

/// CUtensorMapSwizzle and CUtensorMapL2promotion count from none.
int swizzleOf(const TensorMapView& view) {
  return view.swizzle == 0 ? 0 : view.swizzle == 32 ? 1 : view.swizzle == 64 ? 2 : 3;
}
int promotionOf(const TensorMapView& view) {
  return view.promotion == 0 ? 0 : view.promotion == 64 ? 1 : view.promotion == 128 ? 2 : 3;
}

std::size_t hashOf(const TensorMapView& view) {
  std::uint64_t hash = view.address;
  auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15; };
  for (std::size_t d = 0; d < view.rank; ++d) {
    add(view.sizes[d]);
    add(view.box[d]);
    if (d > 0)
      add(view.strides[d - 1]);
  }
  add(std::uint64_t(view.swizzle) << 32 | std::uint64_t(view.promotion) << 8 |
      static_cast<std::uint64_t>(view.dtype));
  return static_cast<std::size_t>(hash >> 32);
}

} // namespace

void checkTensorMapForm(const TensorMapView& view, const std::string& place) {
  if (view.rank < 1 || view.rank > maxTensorMapRank)
    fail(ErrorKind::input,
         "{} has {} dimensions; a tensor map has 1 to {}, so join those that lie one after another",
         place, view.rank, maxTensorMapRank);
  for (std::size_t d = 0; d < view.rank; ++d)
    if (view.box[d] < 1 || view.box[d] > maxBox)
      fail(ErrorKind::input,
           "{}: the box has {} elements in dimension {}; allowed are 1 to {}, so take several "
           "copies",
           place, view.box[d], d, maxBox);
  const std::uint64_t row = view.box[0] * sizeInBytes(view.dtype);
  if (row % unit != 0)
    fail(ErrorKind::input,
         "{}: a row of the box has {} bytes ({} elements of {}); allowed are multiples of {}",
         place, row, view.box[0], name(view.dtype), unit);
  if (view.swizzle != 0 && view.swizzle != 32 && view.swizzle != 64 && view.swizzle != 128)
    fail(ErrorKind::input, "{}: a swizzle of {} bytes; allowed are 0 (none), 32, 64 and 128", place,
         view.swizzle);
  if (view.swizzle != 0 && row > view.swizzle)
    fail(ErrorKind::input,
         "{}: a row of the box has {} bytes ({} elements of {}), a swizzle of {} bytes allows {}; "
         "take a wider swizzle or a box of {} elements and more copies",
         place, row, view.box[0], name(view.dtype), view.swizzle, view.swizzle,
         view.swizzle / sizeInBytes(view.dtype));
  if (view.promotion != 0 && view.promotion != 64 && view.promotion != 128 && view.promotion != 256)
    fail(ErrorKind::input, "{}: a promotion of {} bytes; allowed are 0 (none), 64, 128 and 256",
         place, view.promotion);
}

void checkTensorMapValues(const TensorMapView& view, const std::string& place) {
  if (view.address % unit != 0)
    fail(ErrorKind::input,
         "{}: the pointer is aligned to {} bytes, tensor maps need {}; copy the tensor", place,
         view.address & -view.address, unit);
  for (std::size_t d = 0; d < view.rank; ++d)
    if (view.sizes[d] < 1 || view.sizes[d] > maxSize)
      fail(ErrorKind::input,
           "{}: dimension {} has {} elements; a tensor map takes 1 to {}, so split the tensor",
           place, d, view.sizes[d], maxSize);
  for (std::size_t d = 1; d < view.rank; ++d)
    if (const std::uint64_t stride = view.strides[d - 1]; stride % unit != 0 || stride >= maxStride)
      fail(ErrorKind::input,
           "{}: the stride of dimension {} is {} bytes; a tensor map takes multiples of {} below "
           "{}, so copy the tensor to rows that are padded",
           place, d, stride, unit, maxStride);
}

EncodedTensorMap encodeTensorMap(const TensorMapView& view) {
  constexpr int interleaveNone = 0, fillZero = 0;
  constexpr unsigned elementStrides[maxTensorMapRank] = {1, 1, 1, 1, 1};
  EncodedTensorMap map;
  const CuStatus status = Driver::get().cuTensorMapEncodeTiled(
      &map, typeOf(view.dtype), view.rank, view.address, view.sizes.data(), view.strides.data(),
      view.box.data(), elementStrides, interleaveNone, swizzleOf(view), promotionOf(view),
      fillZero);
  if (status != 0)
    fail(ErrorKind::device,
         "cuTensorMapEncodeTiled failed with error {} for {} at {:#x}: sizes {}, strides {} bytes, "
         "box {}, swizzle {}, promotion {}",
         status, name(view.dtype), view.address,
         fmt::join(std::span(view.sizes).first(view.rank), "x"),
         fmt::join(std::span(view.strides).first(view.rank - 1u), ", "),
         fmt::join(std::span(view.box).first(view.rank), "x"), view.swizzle, view.promotion);
  return map;
}

const EncodedTensorMap& encodedTensorMap(const TensorMapView& view) {
  struct Known {
    TensorMapView view; // rank 0: nothing yet
    EncodedTensorMap map;
  };
  constexpr std::size_t places = 512; // two maps of one place take turns: slower, not wrong
  thread_local std::vector<Known> table;
  if (table.empty())
    table.resize(places);
  Known& known = table[hashOf(view) % places];
  if (known.view != view) {
    known.map = encodeTensorMap(view);
    known.view = view;
  }
  return known.map;
}

} // namespace kiln
