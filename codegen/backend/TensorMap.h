// Tensor maps: 128 bytes by which a kernel's tensor copies (TMA) find the tiles of a tensor. Here
// are a map's values for one launch, what the hardware allows of them, and their encoding by the
// driver. Plain values, so that equal ones can be found again.
#pragma once

#include "kiln/kiln.h"

#include <array>

namespace kiln {

inline constexpr std::size_t maxTensorMapRank = 5;

/// What one tensor map says, with all run-time values filled in. Dimensions count from the
/// innermost, whose elements lie side by side. Of rank 0: it shows nothing, and is all zeros.
struct TensorMapView {
  std::uint64_t address = 0;
  std::array<std::uint64_t, maxTensorMapRank> sizes{};       // elements
  std::array<std::uint64_t, maxTensorMapRank - 1> strides{}; // bytes, of the second dimension on
  std::array<std::uint32_t, maxTensorMapRank> box{};         // elements that one copy moves
  std::uint8_t rank = 0;
  DType dtype = DType::f32;
  std::uint16_t swizzle = 0;   // bytes of a span: 0 (none), 32, 64, 128
  std::uint16_t promotion = 0; // bytes that the L2 fetches at least: 0 (as needed), 64, 128, 256
  bool operator==(const TensorMapView&) const = default;
};

/// What does not depend on a launch: rank, element type, box, swizzle, promotion. Throws
/// Error(input) beginning with `place`.
void checkTensorMapForm(const TensorMapView& view, const std::string& place);
/// What does: address, sizes, strides. The form was checked.
void checkTensorMapValues(const TensorMapView& view, const std::string& place);

/// The bytes as a kernel takes them.
struct alignas(64) EncodedTensorMap {
  std::array<std::uint64_t, 16> words{};
};

/// Asks the driver. Throws Error(device) with all values if it refuses what the checks let pass.
EncodedTensorMap encodeTensorMap(const TensorMapView& view);

/// The same from a table of the calling thread, which remembers what it encoded: launches that
/// repeat their pointers and sizes ask the driver nothing. A map is a function of its values alone,
/// so that nothing in the table ever ages. Valid until the thread's next call.
const EncodedTensorMap& encodedTensorMap(const TensorMapView& view);

} // namespace kiln
