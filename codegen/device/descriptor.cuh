// Where an operand of a warpgroup's product (wgmma.cuh) lies in shared memory: tiles as tensor maps
// with a swizzle bring them, rows of `swizzle` bytes one after the other. A tile that is wider is
// cut into panels of that width. The same on the device and on the host target.
#pragma once

#include "types.cuh"

namespace kiln {

struct MatrixDescriptor {
  u64 bits; // address, panel stride and group stride in units of 16 bytes, and the swizzle's code

  /// The operand that begins so many bytes further on, a multiple of 16.
  KILN_DEVICE MatrixDescriptor operator+(int bytes) const { return {bits + u64(i64(bytes / 16))}; }
};

template <int swizzle>
KILN_DEVICE MatrixDescriptor describe_matrix(const void* tile, int panel_stride) {
  static_assert(swizzle == 32 || swizzle == 64 || swizzle == 128,
                "an operand's rows are swizzled by spans of 32, 64 or 128 bytes");
  constexpr u64 code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3; // a tensor map has others
  constexpr u64 group = swizzle * 8;                               // 8 rows
  return {code << 62 | group / 16 << 32 | u64(panel_stride / 16) << 16 |
          u64((shared_address(tile) & 0x3ffff) / 16)};
}

/// A tile of (64 or N rows, 16 elements of K): those of one step lie in one panel. The next step
/// is 32 bytes on in the same panel, and then at the start of the next.
template <int swizzle> KILN_DEVICE MatrixDescriptor k_major(const void* tile) {
  return describe_matrix<swizzle>(tile, 16); // which the hardware does not read
}
/// A transposed tile of (16 elements of K, 64 or N), whose panels are so many bytes apart. The next
/// step is 16 rows on.
template <int swizzle> KILN_DEVICE MatrixDescriptor mn_major(const void* tile, int panel_stride) {
  return describe_matrix<swizzle>(tile, panel_stride);
}

/// That a warpgroup multiplies (64, 16) by (16, N) of this type.
template <class T, int N> KILN_DEVICE constexpr void check_wgmma() {
  static_assert(is_half<T>, "such products are of bf16 or f16");
  static_assert(N == 8 || N == 16 || N == 24 || N == 32 || N == 40 || N == 48 || N == 64 ||
                    N == 80 || N == 96 || N == 128 || N == 192 || N == 256,
                "N is 8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192 or 256");
}

} // namespace kiln
