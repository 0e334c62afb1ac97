// See HostTensorMap.h.
#include "codegen/host/HostTensorMap.h"

namespace kiln {

HostTensorMap::HostTensorMap(const TensorMapView& view)
    : mark(view.rank == 0 ? 0 : valid), rank(view.rank),
      elementSize(static_cast<std::uint8_t>(sizeInBytes(view.dtype))), swizzle(view.swizzle),
      address(view.address), sizes(view.sizes) {
  strides[0] = elementSize;
  for (std::size_t d = 0; d < rank; ++d) {
    box[d] = static_cast<std::uint16_t>(view.box[d]);
    if (d > 0)
      strides[d] = view.strides[d - 1];
  }
}

int HostTensorMap::boxBytes() const {
  int bytes = elementSize;
  for (std::size_t d = 0; d < rank; ++d)
    bytes *= box[d];
  return bytes;
}

const char* HostTensorMap::element(const int* at,
                                   const std::array<int, maxTensorMapRank>& inBox) const {
  std::uint64_t place = address;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t index = std::int64_t(at[d]) + inBox[d];
    if (index < 0 || static_cast<std::uint64_t>(index) >= sizes[d])
      return nullptr;
    place += static_cast<std::uint64_t>(index) * strides[d];
  }
  return reinterpret_cast<const char*>(place);
}

/// Bits of the address above 128 bytes are added to those that count its units of 16.
std::uint64_t HostTensorMap::swizzled(std::uint64_t place) const {
  const std::uint64_t units = swizzle / 16; // of a span; none without a swizzle
  return units == 0 ? place : place ^ (place >> 3 & (units - 1) << 4);
}

} // namespace kiln
