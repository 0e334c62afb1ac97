// The host twin of device/wgmma.cuh. A product is computed when all threads of the warpgroup have
// started it, and until they have waited for it their accumulators hold NaN.
#pragma once

#include "descriptor.cuh"

namespace kiln {

KILN_DEVICE void wgmma_fence() {
  host_runtime.fenceProducts(host_runtime.context);
}
KILN_DEVICE void wgmma_commit() {
  host_runtime.endProducts(host_runtime.context);
}
template <int groups> KILN_DEVICE void wgmma_wait() {
  static_assert(groups >= 0 && groups <= 7, "a wait leaves 0 to 7 groups");
  host_runtime.waitForProducts(host_runtime.context, groups);
}
template <int count> KILN_DEVICE void pin(float (&)[count]) {}
template <int count> KILN_DEVICE void pin(u32 (&)[count]) {}

template <class T> inline float widened_half(u16 bits) {
  return float(T::from_bits(bits));
}

template <class T, int N, bool transposedA, bool transposedB>
KILN_DEVICE void wgmma(float (&d)[N / 2], MatrixDescriptor a_tile, MatrixDescriptor b_tile,
                       bool accumulate) {
  check_wgmma<T, N>();
  const HostProduct product = {widened_half<T>, N,           nullptr,     a_tile.bits,
                               b_tile.bits,     transposedA, transposedB, accumulate};
  host_runtime.multiply(host_runtime.context, d, &product);
}
template <class T, int N, bool transposedB>
KILN_DEVICE void wgmma(float (&d)[N / 2], const u32 (&a)[4], MatrixDescriptor b_tile,
                       bool accumulate) {
  check_wgmma<T, N>();
  const HostProduct product = {widened_half<T>, N,     a,           0,
                               b_tile.bits,     false, transposedB, accumulate};
  host_runtime.multiply(host_runtime.context, d, &product);
}

} // namespace kiln
