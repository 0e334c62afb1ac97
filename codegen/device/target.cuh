// The machine: every instruction that C++ has no words for, one function each. The host target
// replaces this file by its twin (host/target.cuh), and so tensor_copy.cuh, mma.cuh and wgmma.cuh;
// nothing else in device/ may use a builtin.
#pragma once

#include "scalar.cuh"

#define KILN_DEVICE __device__ __forceinline__
#define KILN_INLINE __attribute__((always_inline)) // behind the parameters of a lambda
#define KILN_OUTLINE static __device__ __noinline__
#define KILN_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

namespace kiln {

KILN_DEVICE int thread_index() {
  return int(threadIdx.x);
}
KILN_DEVICE i64 block_index() {
  return blockIdx.x;
}
KILN_DEVICE i64 block_index_y() {
  return blockIdx.y;
}
KILN_DEVICE i64 block_index_z() {
  return blockIdx.z;
}
KILN_DEVICE i64 block_count() {
  return gridDim.x;
}

/// Dynamic shared memory of the block, 16-byte aligned.
KILN_DEVICE char* shared_memory() {
  extern __shared__ __align__(16) char memory[];
  return memory;
}

KILN_DEVICE void block_barrier() {
  __syncthreads();
}
/// Barrier among `threads` threads of the block (a multiple of 32) that name the same id, 1 to 15.
KILN_DEVICE void group_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The value of the warp's first lane, which the compiler then knows to be one for all 32.
KILN_DEVICE int uniform(int value) {
  return __shfl_sync(0xffffffffu, value, 0);
}
/// The value of the lane whose index differs in the bits of `mask`; all 32 lanes take part.
KILN_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

/// The lanes of the warp (bit l: lane l) that bring the same value; all 32 lanes take part.
KILN_DEVICE u32 lanes_with(u32 value) {
  return __match_any_sync(0xffffffffu, value);
}
/// Barrier of a warp: what its lanes wrote to shared memory is visible to all of them.
KILN_DEVICE void warp_barrier() {
  __syncwarp();
}
KILN_DEVICE int count_bits(u32 bits) {
  return __popc(bits);
}

// Programmatic launch: everything the previous kernel of the stream wrote is visible after the
// wait; the next kernel may be launched once all blocks have released it (or ended).
// Both do nothing in a kernel that was launched plainly.
KILN_DEVICE void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
KILN_DEVICE void release_successor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

KILN_DEVICE float bits_to_float(u32 bits) {
  return __builtin_bit_cast(float, bits);
}
// One value is rounded as a pair: a single conversion has a quarter of a pair's rate.
KILN_DEVICE u32 float_to_bf16x2(float low, float high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
KILN_DEVICE u16 float_to_bf16(float value) {
  return u16(float_to_bf16x2(value, 0.0f));
}
KILN_DEVICE u32 float_to_f16x2(float low, float high) {
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
KILN_DEVICE u16 float_to_f16(float value) {
  return u16(float_to_f16x2(value, 0.0f));
}
KILN_DEVICE float f16_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

/// a * b, rounded by itself: the compiler makes no fma of it.
KILN_DEVICE float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}
/// exp(value) as a power of two; results below 2^-126 are 0.
KILN_DEVICE float fast_exp(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value * 1.44269504f));
  return result;
}
/// 1 / value to 1 unit of the last place.
KILN_DEVICE float fast_reciprocal(float value) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
/// a / b to 2 units of the last place.
KILN_DEVICE float fast_quotient(float a, float b) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// Of angles within half a turn; off by less than 2^-20.
KILN_DEVICE float fast_sine(float angle) {
  return __sinf(angle);
}
KILN_DEVICE float fast_cosine(float angle) {
  return __cosf(angle);
}
/// 1 / sqrt(value): the hardware's approximation and one step of Newton's method, so that the error
/// is about that of one rounding. The step has no answer where the root is 0 or infinite.
KILN_DEVICE float inverse_sqrt(float value) {
  const float root = rsqrtf(value);
  const float rest = fmaf(-value * root, root, 1.0f);
  return rest > -1.0f ? fmaf(0.5f * root, rest, root) : root;
}

/// Larger and smaller of two; NaN if either is NaN.
KILN_DEVICE float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
KILN_DEVICE float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// The same of two pairs of bf16 or f16.
KILN_DEVICE u32 maximum_bf16x2(u32 a, u32 b) {
  u32 result;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
KILN_DEVICE u32 minimum_bf16x2(u32 a, u32 b) {
  u32 result;
  asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
KILN_DEVICE u32 maximum_f16x2(u32 a, u32 b) {
  u32 result;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
KILN_DEVICE u32 minimum_f16x2(u32 a, u32 b) {
  u32 result;
  asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

/// One access of 1, 2, 4, 8 or 16 bytes, aligned to its size.
template <class V> KILN_DEVICE V load_global(const void* from) {
  if constexpr (sizeof(V) == 16) {
    uint4 w;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(from));
    return __builtin_bit_cast(V, w);
  } else if constexpr (sizeof(V) == 8) {
    uint2 w;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w.x), "=r"(w.y) : "l"(from));
    return __builtin_bit_cast(V, w);
  } else if constexpr (sizeof(V) == 4) {
    u32 w;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(from));
    return __builtin_bit_cast(V, w);
  } else if constexpr (sizeof(V) == 2) {
    u16 w;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(w) : "l"(from));
    return __builtin_bit_cast(V, w);
  } else {
    static_assert(sizeof(V) == 1, "an access is 1, 2, 4, 8 or 16 bytes");
    return *static_cast<const V*>(from);
  }
}
template <class V> KILN_DEVICE void store_global(void* to, const V& value) {
  if constexpr (sizeof(V) == 16) {
    const uint4 w = __builtin_bit_cast(uint4, value);
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w.x), "r"(w.y), "r"(w.z),
                 "r"(w.w)
                 : "memory");
  } else if constexpr (sizeof(V) == 8) {
    const uint2 w = __builtin_bit_cast(uint2, value);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(w.x), "r"(w.y) : "memory");
  } else {
    *static_cast<V*>(to) = value;
  }
}

/// Counts the block, of so many, and returns how many had been counted before; the last one leaves
/// 0. What the thread knew to be written is then visible to the threads that count themselves
/// later.
KILN_DEVICE u32 count_block(u32* counter, u32 blocks) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(blocks - 1)
               : "memory");
  return before;
}

template <class V> KILN_DEVICE V load_shared(const void* from) {
  return *static_cast<const V*>(from);
}
template <class V> KILN_DEVICE void store_shared(void* to, const V& value) {
  *static_cast<V*>(to) = value;
}

KILN_DEVICE u32 shared_address(const void* place) {
  return u32(__cvta_generic_to_shared(place));
}

// Blocks of a cluster run together and reach each other's shared memory. A block that has arrived
// waits until all have; what was stored before is then visible, wherever it was stored.
KILN_DEVICE int cluster_rank() {
  u32 rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return int(rank);
}
KILN_DEVICE void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
KILN_DEVICE void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
/// Stores to the same place in the shared memory of each of `blocks` blocks.
template <int blocks> KILN_DEVICE void store_cluster(float* to, float value) {
#if __CUDA_ARCH__ >= 900
  if constexpr (blocks > 1) {
#pragma unroll
    for (int rank = 0; rank < blocks; ++rank)
      asm volatile("{\n"
                   ".reg .u32 there;\n"
                   "mapa.shared::cluster.u32 there, %0, %1;\n"
                   "st.shared::cluster.f32 [there], %2;\n"
                   "}" ::"r"(shared_address(to)),
                   "r"(rank), "f"(value)
                   : "memory");
    return;
  }
#endif
  store_shared(to, value);
}
/// Starts a copy of 4, 8 or 16 bytes from global to shared memory, both aligned to their size.
template <int bytes> KILN_DEVICE void copy_to_shared(void* to, const void* from) {
  const u32 at = shared_address(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes)
                 : "memory");
}

// Barriers in shared memory, of 8 bytes. A phase of one is complete when as many threads have
// arrived as it was initialized for and all bytes that it expects have been copied. Bulk copies
// move multiples of 16 bytes, both ends aligned to 16.
KILN_DEVICE void mbarrier_initialize(u64* barrier, int threads) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(threads)
               : "memory");
}
/// Makes barriers that this thread initialized known to copies.
KILN_DEVICE void mbarrier_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
KILN_DEVICE void mbarrier_expect(u64* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
KILN_DEVICE void mbarrier_arrive(u64* barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
      : "memory");
}
/// Waits until the phase of this parity is complete; phases count from 0.
KILN_DEVICE void mbarrier_wait(u64* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(shared_address(barrier)),
               "r"(parity)
               : "memory");
#endif
}
/// Into the L2 cache.
KILN_DEVICE void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
/// A multiple of 16 bytes from a multiple of 16 on.
KILN_DEVICE void bulk_prefetch(const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}
/// What this thread has read or written of shared memory comes before bulk copies that are started
/// once it has arrived at a barrier: they pass by the caches that accesses wait in, and would
/// overtake them, or read what was there before.
KILN_DEVICE void bulk_copy_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
KILN_DEVICE void bulk_copy_to_shared(void* to, const void* from, int bytes, u64* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}

/// Ends a group of the copies that this thread starts.
KILN_DEVICE void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// ptxas 13.0 moves loads of what was copied above the wait, unless a barrier follows it. That of
// the warp is no instruction where the warp is whole.
/// Waits until of the groups that this thread ended all but the last `groups` are done. All threads
/// of the warp call it.
template <int groups> KILN_DEVICE void wait_for_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
  warp_barrier();
}
/// Waits until all copies that this thread started are done. All threads of the warp call it.
KILN_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  warp_barrier();
}

} // namespace kiln
