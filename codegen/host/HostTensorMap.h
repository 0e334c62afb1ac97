// A tensor map as kernels take it on the host: as many bytes as the driver's, of an encoding of our
// own, and what of its tensor a copy of one box moves where.
#pragma once

#include "codegen/backend/TensorMap.h"

namespace kiln {

class alignas(64) HostTensorMap {
 public:
  HostTensorMap() = default;
  explicit HostTensorMap(const TensorMapView& view);

  bool isValid() const { return mark == valid; } // else it is other bytes
  int dimensions() const { return rank; }
  int elementBytes() const { return elementSize; }
  int boxBytes() const;

  /// Calls visit(offset, elements) for each 16 bytes of the box whose first element has these
  /// coordinates: where they lie when the box begins at `place` of shared memory, and a pointer to
  /// each element in global memory, null beyond the tensor's ends.
  template <typename Visit> void forEach(std::uint64_t place, const int* at, Visit visit) const;

 private:
  static constexpr std::uint32_t valid = 0x70616d74;

  const char* element(const int* at, const std::array<int, maxTensorMapRank>& inBox) const;
  std::uint64_t swizzled(std::uint64_t place) const;

  std::uint32_t mark = 0;
  std::uint8_t rank = 0, elementSize = 0;
  std::uint16_t swizzle = 0;
  std::uint64_t address = 0;
  std::array<std::uint64_t, maxTensorMapRank> sizes{};
  std::array<std::uint64_t, maxTensorMapRank> strides{}; // bytes
  std::array<std::uint16_t, maxTensorMapRank> box{};
};
static_assert(sizeof(HostTensorMap) == sizeof(EncodedTensorMap));

template <typename Visit>
void HostTensorMap::forEach(std::uint64_t place, const int* at, Visit visit) const {
  constexpr int unit = 16;
  std::array<int, maxTensorMapRank> inBox{};
  std::array<const char*, unit> elements{};
  const int each = unit / elementSize;
  for (std::uint64_t offset = 0, end = static_cast<std::uint64_t>(boxBytes()); offset < end;
       offset += unit) {
    for (int i = 0; i < each; ++i, ++inBox[0])
      elements[static_cast<std::size_t>(i)] = element(at, inBox);
    visit(swizzled(place + offset),
          std::span<const char* const>(elements).first(static_cast<std::size_t>(each)));
    for (std::size_t d = 0; d + 1 < rank && inBox[d] == box[d]; ++d) {
      inBox[d] = 0;
      ++inBox[d + 1];
    }
  }
}

} // namespace kiln
