// The host twin of device/target.cuh: the same functions, for the system's C++ compiler, bit for
// bit like the hardware where the hardware is exact. Threads of a block are fibers, so a barrier
// or a shuffle is a call into the host runtime, and so is the check before each access to memory.
// Includes no library header: a kernel shall compile in a fraction of a second.
#pragma once

#include "host_runtime.h"
#include "scalar.cuh"

#define KILN_DEVICE inline __attribute__((always_inline))
#define KILN_INLINE __attribute__((always_inline))
#define KILN_OUTLINE static __attribute__((noinline))
#define KILN_KERNEL(threads, blocks) extern "C" __attribute__((visibility("default"))) void

// The math functions that generated text calls are the C library's; CUDA has them built in.
extern "C" {
float acosf(float) noexcept;
float asinf(float) noexcept;
float atan2f(float, float) noexcept;
float atanf(float) noexcept;
float cbrtf(float) noexcept;
float ceilf(float) noexcept;
float copysignf(float, float) noexcept;
float cosf(float) noexcept;
float coshf(float) noexcept;
float erfcf(float) noexcept;
float erff(float) noexcept;
float exp2f(float) noexcept;
float expf(float) noexcept;
float expm1f(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float fmodf(float, float) noexcept;
float log10f(float) noexcept;
float log1pf(float) noexcept;
float log2f(float) noexcept;
float logf(float) noexcept;
float powf(float, float) noexcept;
float rintf(float) noexcept;
float roundf(float) noexcept;
float sinf(float) noexcept;
float sinhf(float) noexcept;
float sqrtf(float) noexcept;
float tanf(float) noexcept;
float tanhf(float) noexcept;
float truncf(float) noexcept;
}
namespace kiln {

// No kernel has the function's name: theirs begin with "kiln_".
// Static, so that reading a value is one load without a detour over the global offset table.
static HostRuntime host_runtime;
extern "C" __attribute__((visibility("default"))) HostRuntime* host_runtime_of_kiln() {
  return &host_runtime;
}

KILN_DEVICE int thread_index() {
  return host_runtime.threadIndex;
}
KILN_DEVICE i64 block_index() {
  return host_runtime.blockIndex;
}
KILN_DEVICE i64 block_index_y() {
  return host_runtime.blockIndexY;
}
KILN_DEVICE i64 block_index_z() {
  return host_runtime.blockIndexZ;
}
KILN_DEVICE i64 block_count() {
  return host_runtime.blockCount;
}

KILN_DEVICE char* shared_memory() {
  return host_runtime.sharedMemory;
}

KILN_DEVICE void block_barrier() {
  host_runtime.barrier(host_runtime.context, 0, 0);
}
KILN_DEVICE void group_barrier(int id, int threads) {
  host_runtime.barrier(host_runtime.context, id, threads);
}
KILN_DEVICE int cluster_rank() {
  return host_runtime.clusterRank;
}
KILN_DEVICE void cluster_arrive() {
  host_runtime.clusterArrive(host_runtime.context);
}
KILN_DEVICE void cluster_wait() {
  host_runtime.clusterWait(host_runtime.context);
}
KILN_DEVICE int uniform(int value) {
  return host_runtime.uniform(host_runtime.context, value);
}
KILN_DEVICE float shuffle_xor(float value, int mask) {
  return host_runtime.shuffleXor(host_runtime.context, value, mask);
}

KILN_DEVICE u32 lanes_with(u32 value) {
  return host_runtime.lanesWith(host_runtime.context, value);
}
KILN_DEVICE void warp_barrier() {
  shuffle_xor(0.0f, 0);
}
KILN_DEVICE int count_bits(u32 bits) {
  return __builtin_popcount(bits);
}

// Kernels run one after another here, so there is nothing to wait for.
KILN_DEVICE void wait_for_predecessor() {}
KILN_DEVICE void release_successor() {}

KILN_DEVICE float bits_to_float(u32 bits) {
  return __builtin_bit_cast(float, bits);
}
KILN_DEVICE u32 float_to_bits(float value) {
  return __builtin_bit_cast(u32, value);
}

KILN_DEVICE u16 float_to_bf16(float value) {
  const u32 bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return 0x7fff; // the hardware's one NaN
  return u16((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}
KILN_DEVICE u32 float_to_bf16x2(float low, float high) {
  return u32(float_to_bf16(high)) << 16 | float_to_bf16(low);
}
inline u16 float_to_f16(float value) {
  const u32 bits = float_to_bits(value);
  const u32 sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return 0x7fff;
  if (magnitude >= 0x477ff000u) // rounds to 65536 or is infinite
    return u16(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) // normal: another exponent bias, 13 bits less
    return u16(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13));
  // Subnormal: a float in [0.5, 1) has a spacing of 2^-24, the one wanted, so adding 0.5 rounds.
  return u16(sign | (float_to_bits(bits_to_float(magnitude) + 0.5f) - 0x3f000000u));
}
KILN_DEVICE u32 float_to_f16x2(float low, float high) {
  return u32(float_to_f16(high)) << 16 | float_to_f16(low);
}
inline float f16_to_float(u16 bits) {
  const u32 sign = u32(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u)
    return bits_to_float(0x7fffffffu);
  if (magnitude == 0x7c00u)
    return bits_to_float(sign | 0x7f800000u);
  if (magnitude >= 0x0400u)
    return bits_to_float(sign | ((magnitude << 13) + 0x38000000u));
  return bits_to_float(sign | float_to_bits(float(magnitude) * 0x1p-24f));
}

KILN_DEVICE float rounded_product(float a, float b) {
  return a * b;
}
KILN_DEVICE float fast_exp(float value) {
  return exp2f(value * 1.44269504f);
}
KILN_DEVICE float fast_reciprocal(float value) {
  return 1.0f / value;
}
KILN_DEVICE float fast_quotient(float a, float b) {
  return a / b;
}
KILN_DEVICE float fast_sine(float angle) {
  return __builtin_sinf(angle);
}
KILN_DEVICE float fast_cosine(float angle) {
  return __builtin_cosf(angle);
}
KILN_DEVICE float inverse_sqrt(float value) {
  return float(1.0 / __builtin_sqrt(double(value)));
}

/// Larger and smaller of two; NaN if either is NaN; -0 is smaller than +0.
KILN_DEVICE float maximum(float a, float b) {
  if (a != a || b != b)
    return bits_to_float(0x7fffffffu);
  if (a == b)
    return bits_to_float(float_to_bits(a) & float_to_bits(b));
  return a > b ? a : b;
}
KILN_DEVICE float minimum(float a, float b) {
  if (a != a || b != b)
    return bits_to_float(0x7fffffffu);
  if (a == b)
    return bits_to_float(float_to_bits(a) | float_to_bits(b));
  return a < b ? a : b;
}

template <class Combine> KILN_DEVICE u32 of_bf16_pairs(u32 a, u32 b, Combine combine) {
  return float_to_bf16x2(combine(bits_to_float(a << 16), bits_to_float(b << 16)),
                         combine(bits_to_float(a >> 16 << 16), bits_to_float(b >> 16 << 16)));
}
template <class Combine> KILN_DEVICE u32 of_f16_pairs(u32 a, u32 b, Combine combine) {
  return float_to_f16x2(combine(f16_to_float(u16(a)), f16_to_float(u16(b))),
                        combine(f16_to_float(u16(a >> 16)), f16_to_float(u16(b >> 16))));
}
KILN_DEVICE u32 maximum_bf16x2(u32 a, u32 b) {
  return of_bf16_pairs(a, b, maximum);
}
KILN_DEVICE u32 minimum_bf16x2(u32 a, u32 b) {
  return of_bf16_pairs(a, b, minimum);
}
KILN_DEVICE u32 maximum_f16x2(u32 a, u32 b) {
  return of_f16_pairs(a, b, maximum);
}
KILN_DEVICE u32 minimum_f16x2(u32 a, u32 b) {
  return of_f16_pairs(a, b, minimum);
}

/// One access of 1, 2, 4, 8 or 16 bytes, aligned to its size.
template <class V, HostAccess kind> KILN_DEVICE V checked_load(const void* from) {
  static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0,
                "an access is 1, 2, 4, 8 or 16 bytes");
  host_runtime.access(host_runtime.context, from, sizeof(V), kind);
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}
template <class V, HostAccess kind> KILN_DEVICE void checked_store(void* to, const V& value) {
  static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0,
                "an access is 1, 2, 4, 8 or 16 bytes");
  host_runtime.access(host_runtime.context, to, sizeof(V), kind);
  __builtin_memcpy(to, &value, sizeof(V));
}

template <class V> KILN_DEVICE V load_global(const void* from) {
  return checked_load<V, readGlobal>(from);
}
template <class V> KILN_DEVICE void store_global(void* to, const V& value) {
  checked_store<V, writeGlobal>(to, value);
}
KILN_DEVICE u32 count_block(u32* counter, u32 blocks) {
  return host_runtime.countBlock(host_runtime.context, counter, blocks);
}
template <class V> KILN_DEVICE V load_shared(const void* from) {
  return checked_load<V, readShared>(from);
}
template <class V> KILN_DEVICE void store_shared(void* to, const V& value) {
  checked_store<V, writeShared>(to, value);
}
template <int blocks> KILN_DEVICE void store_cluster(float* to, float value) {
  if constexpr (blocks == 1)
    store_shared(to, value);
  else
    host_runtime.storeCluster(host_runtime.context, to, value);
}

/// From the start of the block's memory, whose swizzles then are those of a device.
KILN_DEVICE u32 shared_address(const void* place) {
  return u32(static_cast<const char*>(place) - host_runtime.sharedMemory);
}

// A copy is done at once here.
template <int bytes> KILN_DEVICE void copy_to_shared(void* to, const void* from) {
  struct alignas(bytes) Piece {
    char data[bytes];
  };
  store_shared(to, load_global<Piece>(from));
}
KILN_DEVICE void end_copies() {}
template <int groups> KILN_DEVICE void wait_for_copies_but() {}
KILN_DEVICE void wait_for_copies() {}

// Bulk copies are done at once; what may be read when is checked all the same.
KILN_DEVICE void mbarrier_initialize(u64* barrier, int threads) {
  host_runtime.memoryBarrier(host_runtime.context, barrier, initializeBarrier, threads);
}
KILN_DEVICE void mbarrier_fence() {
  host_runtime.memoryBarrier(host_runtime.context, nullptr, fenceBarriers, 0);
}
KILN_DEVICE void mbarrier_expect(u64* barrier, int bytes) {
  host_runtime.memoryBarrier(host_runtime.context, barrier, expectBytes, bytes);
}
KILN_DEVICE void mbarrier_arrive(u64* barrier) {
  host_runtime.memoryBarrier(host_runtime.context, barrier, arriveAtBarrier, 1);
}
KILN_DEVICE void mbarrier_wait(u64* barrier, int parity) {
  host_runtime.memoryBarrier(host_runtime.context, barrier, waitForPhase, parity);
}
KILN_DEVICE void prefetch(const void*) {}
KILN_DEVICE void bulk_prefetch(const void*, int) {}
KILN_DEVICE void bulk_copy_fence() {
  host_runtime.fenceCopies(host_runtime.context);
}
KILN_DEVICE void bulk_copy_to_shared(void* to, const void* from, int bytes, u64* barrier) {
  host_runtime.copyBytes(host_runtime.context, to, from, bytes, barrier);
}

} // namespace kiln
