// The host twin of device/tensor_copy.cuh. Copies are done at once; who may touch what when is
// checked all the same.
#pragma once

#include "target.cuh"

namespace kiln {

struct TensorMap; // 128 bytes that only the host runtime reads
// By reference: all parameters of a kernel are then of 8 bytes.
#define KILN_TENSOR_MAP const kiln::TensorMap&

KILN_DEVICE char* swizzled_memory() {
  return shared_memory();
}
KILN_DEVICE void prefetch_tensor_map(const TensorMap&) {}

KILN_DEVICE void mbarrier_arrive_expecting(u64* barrier, int bytes) {
  mbarrier_expect(barrier, bytes);
  mbarrier_arrive(barrier);
}
KILN_DEVICE void mbarrier_arrive_in_block(u64* barrier, int rank) {
  host_runtime.memoryBarrier(host_runtime.context, barrier, arriveInBlock, rank);
}
KILN_DEVICE void mbarrier_wait_for_cluster(u64* barrier, int parity) {
  mbarrier_wait(barrier, parity);
}

KILN_DEVICE void store_to_block(void* to, const float (&values)[4], u64* barrier, int rank) {
  host_runtime.storeToBlock(host_runtime.context, to, values, barrier, rank);
}

template <class... At>
KILN_DEVICE void load_tile_to_blocks(void* to, const TensorMap& map, u64* barrier, u32 blocks,
                                     At... at) {
  static_assert(sizeof...(At) >= 2 && sizeof...(At) <= 4, "such tiles have 2 to 4 dimensions");
  const int place[] = {at...};
  const HostTile tile = {&map, place, sizeof...(At)};
  host_runtime.copyTile(host_runtime.context, to, &tile, barrier, blocks);
}
template <class... At>
KILN_DEVICE void load_tile(void* to, const TensorMap& map, u64* barrier, At... at) {
  static_assert(sizeof...(At) >= 2 && sizeof...(At) <= 5, "tiles have 2 to 5 dimensions");
  const int place[] = {at...};
  const HostTile tile = {&map, place, sizeof...(At)};
  host_runtime.copyTile(host_runtime.context, to, &tile, barrier, 1u << cluster_rank());
}
template <class... At>
KILN_DEVICE void store_tile(const TensorMap& map, const void* from, At... at) {
  static_assert(sizeof...(At) >= 2 && sizeof...(At) <= 5, "tiles have 2 to 5 dimensions");
  const int place[] = {at...};
  const HostTile tile = {&map, place, sizeof...(At)};
  host_runtime.storeTile(host_runtime.context, &tile, from);
}

KILN_DEVICE void bulk_copy_to_global(void* to, const void* from, int bytes) {
  host_runtime.storeBytes(host_runtime.context, to, from, bytes, false);
}
KILN_DEVICE void bulk_add_to_global(float* to, const void* from, int bytes) {
  host_runtime.storeBytes(host_runtime.context, to, from, bytes, true);
}

KILN_DEVICE void end_tile_stores() {
  host_runtime.endStores(host_runtime.context);
}
template <int groups> KILN_DEVICE void wait_for_tile_reads_but() {
  host_runtime.waitForStores(host_runtime.context, groups, false);
}
template <int groups> KILN_DEVICE void wait_for_tile_stores_but() {
  host_runtime.waitForStores(host_runtime.context, groups, true);
}

KILN_DEVICE void wait_for_turn(const i32* turns, int turn) {
  host_runtime.waitForTurn(host_runtime.context, turns, turn);
}
KILN_DEVICE void pass_turn(i32* turns, int next) {
  host_runtime.passTurn(host_runtime.context, turns, next);
}

template <int registers> KILN_DEVICE void take_registers() {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0,
                "registers a thread are multiples of 8 from 24 to 256");
  host_runtime.setRegisters(host_runtime.context, registers);
}
template <int registers> KILN_DEVICE void give_up_registers() {
  take_registers<registers>();
}

} // namespace kiln
