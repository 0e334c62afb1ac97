// Instructions of sm_90 and newer for blocks whose warps have roles: bulk copies of tiles that a
// tensor map describes, stores of tiles, barriers of other blocks of the cluster, and registers
// handed from one role to another. One function an instruction, as in target.cuh, and like that
// file replaced on the host target (host/tensor_copy.cuh).
#pragma once

#include "target.cuh"

namespace kiln {

/// As the driver encodes it. A kernel takes one as `KILN_TENSOR_MAP name`.
struct alignas(64) TensorMap {
  u64 words[16];
};
#define KILN_TENSOR_MAP const __grid_constant__ kiln::TensorMap

/// Dynamic shared memory of the block, aligned as the widest swizzle needs it.
KILN_DEVICE char* swizzled_memory() {
  extern __shared__ __align__(1024) char swizzled[];
  return swizzled;
}

/// Fetches the map itself ahead of its first use.
KILN_DEVICE void prefetch_tensor_map(const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

//===- Barriers -----------------------------------------------------------------------------===//

/// Arrives, and makes the phase expect so many bytes more.
KILN_DEVICE void mbarrier_arrive_expecting(u64* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
/// Arrives at the barrier in the same place of a block of the cluster.
KILN_DEVICE void mbarrier_arrive_in_block(u64* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .u32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
               "}" ::"r"(shared_address(barrier)),
               "r"(rank)
               : "memory");
#endif
}
/// mbarrier_wait where blocks of the cluster arrive.
KILN_DEVICE void mbarrier_wait_for_cluster(u64* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(shared_address(barrier)),
               "r"(parity)
               : "memory");
#endif
}
/// Stores four values to the same place in a block of the cluster, 16 bytes that its barrier in the
/// place of `barrier` is told once they are there.
KILN_DEVICE void store_to_block(void* to, const float (&values)[4], u64* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .u32 there, told;\n"
               "mapa.shared::cluster.u32 there, %0, %2;\n"
               "mapa.shared::cluster.u32 told, %1, %2;\n"
               "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], "
               "{%3, %4, %5, %6}, [told];\n"
               "}" ::"r"(shared_address(to)),
               "r"(shared_address(barrier)), "r"(rank), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
#endif
}

//===- Loads --------------------------------------------------------------------------------===//

// The box of the map whose first element has these coordinates, innermost first, to a place in
// shared memory aligned to 128 bytes. What lies beyond the tensor's ends arrives as zeros. The
// barrier is told the bytes of the whole box.
KILN_DEVICE void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y)
               : "memory");
#endif
}
KILN_DEVICE void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y, int z) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
#endif
}
KILN_DEVICE void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y, int z,
                           int w) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
#endif
}
KILN_DEVICE void load_tile(void* to, const TensorMap& map, u64* barrier, int x, int y, int z, int w,
                           int v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
               : "memory");
#endif
}

// The same to that place in each block of the cluster whose bit is set; each block's own barrier in
// the place of `barrier` is told.
KILN_DEVICE void load_tile_to_blocks(void* to, const TensorMap& map, u64* barrier, u32 blocks,
                                     int x, int y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "h"(u16(blocks)), "r"(x), "r"(y)
               : "memory");
#endif
}
KILN_DEVICE void load_tile_to_blocks(void* to, const TensorMap& map, u64* barrier, u32 blocks,
                                     int x, int y, int z) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
               "l"(&map), "r"(shared_address(barrier)), "h"(u16(blocks)), "r"(x), "r"(y), "r"(z)
               : "memory");
#endif
}
KILN_DEVICE void load_tile_to_blocks(void* to, const TensorMap& map, u64* barrier, u32 blocks,
                                     int x, int y, int z, int w) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "h"(u16(blocks)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
#endif
}

//===- Stores -------------------------------------------------------------------------------===//

// A box from shared memory to where the map says, from 0 on; what lies beyond the tensor's ends is
// left out.
// The threads that wrote the box fence (bulk_copy_fence) and meet before one of them stores it.
KILN_DEVICE void store_tile(const TensorMap& map, const void* from, int x, int y) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
          &map),
      "r"(shared_address(from)), "r"(x), "r"(y)
      : "memory");
#endif
}
KILN_DEVICE void store_tile(const TensorMap& map, const void* from, int x, int y, int z) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          &map),
      "r"(shared_address(from)), "r"(x), "r"(y), "r"(z)
      : "memory");
#endif
}
KILN_DEVICE void store_tile(const TensorMap& map, const void* from, int x, int y, int z, int w) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
               "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
#endif
}
KILN_DEVICE void store_tile(const TensorMap& map, const void* from, int x, int y, int z, int w,
                            int v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
               "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
               : "memory");
#endif
}

// Bytes that lie one after the other, a multiple of 16 from multiples of 16 on, are stored, or as
// fp32 added to what is there, in groups as tiles are.
KILN_DEVICE void bulk_copy_to_global(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
#endif
}
KILN_DEVICE void bulk_add_to_global(float* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
#endif
}

/// Ends a group of the stores that this thread started.
KILN_DEVICE void end_tile_stores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
/// Waits until of the groups that this thread ended all but the last `groups` have read their
/// shared memory, which may then be written again.
template <int groups> KILN_DEVICE void wait_for_tile_reads_but() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups) : "memory");
#endif
}
/// Waits until they are written to global memory as well.
template <int groups> KILN_DEVICE void wait_for_tile_stores_but() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

//===- Turns --------------------------------------------------------------------------------===//

// Blocks that store to one place take turns, which a number in global memory counts from 0. Who
// waits for a turn relies on blocks that come earlier in the grid, for these have begun before it.

/// Waits for the turn: what others stored before they passed theirs on comes before what this
/// thread then starts, bulk stores too.
KILN_DEVICE void wait_for_turn(const i32* turns, int turn) {
#if __CUDA_ARCH__ >= 900
  i32 now;
  do
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turns) : "memory");
  while (now < turn);
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}
/// Passes on to the next turn. Of bulk stores the thread must have waited until they are written.
KILN_DEVICE void pass_turn(i32* turns, int next) {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turns), "r"(next) : "memory");
#endif
}

//===- Registers ----------------------------------------------------------------------------===//

// All threads of four warps that follow one another set theirs together. Those that take more wait
// until others have given them up. The launch plan states what each role ends with.
template <int registers> KILN_DEVICE void take_registers() {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0,
                "registers a thread are multiples of 8 from 24 to 256");
#if __CUDA_ARCH__ >= 900
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
template <int registers> KILN_DEVICE void give_up_registers() {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0,
                "registers a thread are multiples of 8 from 24 to 256");
#if __CUDA_ARCH__ >= 900
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}

} // namespace kiln
