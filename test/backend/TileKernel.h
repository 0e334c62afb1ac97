// A small kernel by hand that uses all of a launch that row kernels do not: a grid of tiles with a
// split, tensor maps of loads and of a store with two swizzles, a cluster whose blocks load for
// each other, and two roles of warps with registers of their own. y[b, s, h, d] = x[b, s, h, d] *
// w[s, d] in bf16 with 4 heads of 64; x has any strides, w and y are packed.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <bit>

namespace kiln::test {

inline constexpr const char* tileKernelText = R"(#include "tensor_copy.cuh"
#include "types.cuh"
using namespace kiln;

constexpr int rows = 64, pieces = 2, heads = 4, stages = 2, splits = 2;
constexpr int tile_bytes = rows * 64 * 2;
constexpr int consumers = 128, consumer_warps = consumers / 32;
using Eight = Vec<bf16, 8>;

// Where 8 columns of a row lie in a tile that was swizzled by spans of 128 and of 64 bytes.
KILN_DEVICE int place128(int row, int eighth) { return row * 128 + (eighth ^ row % 8) * 16; }
KILN_DEVICE int place64(int row, int eighth) { return row * 64 + (eighth ^ row / 2 % 4) * 16; }

struct Shared {
  char* x;       // (stages, rows, 64) bf16
  char* weights; // (rows, 64) bf16
  char* out;     // (2, rows, 32) bf16
  u64* full;     // (stages)
  u64* empty;    // (stages)
  u64* weights_full;
  u64* weights_empty; // in both blocks
};

KILN_DEVICE void produce(const Shared& at, const TensorMap& x, const TensorMap& w, int row,
                         int head, int batches) {
  int slot = 0, phase = 0;
  bool again = false;
  for (int piece = 0; piece < pieces; ++piece, row += rows) {
    if (piece > 0)
      mbarrier_wait_for_cluster(at.weights_empty, piece - 1);
    mbarrier_arrive_expecting(at.weights_full, tile_bytes);
    const int half = cluster_rank();
    load_tile_to_blocks(at.weights + half * (tile_bytes / 2), w, at.weights_full, 3, 0,
                        row + half * (rows / 2));
    for (int batch = int(block_index_y()); batch < batches; batch += splits) {
      if (again)
        mbarrier_wait(at.empty + slot, phase ^ 1);
      mbarrier_arrive_expecting(at.full + slot, tile_bytes);
      load_tile(at.x + slot * tile_bytes, x, at.full + slot, 0, row, head, batch);
      if (++slot == stages) {
        slot = 0;
        phase ^= 1;
        again = true;
      }
    }
  }
}

KILN_DEVICE void consume(const Shared& at, const TensorMap& y, int row, int head, int batches) {
  const int thread = thread_index() - consumers, mine = thread / 2, panel = thread % 2;
  char* out = at.out + panel * (tile_bytes / 2);
  int slot = 0, phase = 0;
  for (int piece = 0; piece < pieces; ++piece, row += rows) {
    Eight weights[4], values[4];
    mbarrier_wait(at.weights_full, piece);
    for (int i = 0; i < 4; ++i)
      weights[i] = load_shared<Eight>(at.weights + place128(mine, 4 * panel + i));
    warp_barrier();
    if (thread % 32 < 2)
      mbarrier_arrive_in_block(at.weights_empty, thread % 32);
    for (int batch = int(block_index_y()); batch < batches; batch += splits) {
      mbarrier_wait(at.full + slot, phase);
      for (int i = 0; i < 4; ++i)
        values[i] = load_shared<Eight>(at.x + slot * tile_bytes + place128(mine, 4 * panel + i));
      warp_barrier();
      if (thread % 32 == 0)
        mbarrier_arrive(at.empty + slot);
      if (thread == 0)
        wait_for_tile_reads_but<0>();
      group_barrier(1, consumers);  // free
      for (int i = 0; i < 4; ++i) {
        const Eight value = values[i], weight = weights[i];
        Eight product;
        for (int j = 0; j < 8; ++j)
          product[j] = bf16(float(value[j]) * float(weight[j]));
        store_shared(out + place64(mine, i), product);
      }
      bulk_copy_fence();
      group_barrier(1, consumers);  // written
      if (thread == 0) {
        store_tile(y, at.out, 0, row, head, batch);
        store_tile(y, at.out + tile_bytes / 2, 32, row, head, batch);
        end_tile_stores();
      }
      if (++slot == stages) {
        slot = 0;
        phase ^= 1;
      }
    }
  }
  if (thread == 0)
    wait_for_tile_stores_but<0>();
}

KILN_KERNEL(2 * consumers, 2)
scale_tiles(KILN_TENSOR_MAP x, KILN_TENSOR_MAP w, KILN_TENSOR_MAP y, i64 batches) {
  char* memory = swizzled_memory();
  u64* barriers = reinterpret_cast<u64*>(memory + (stages + 2) * tile_bytes);
  const Shared at = {memory, memory + stages * tile_bytes, memory + (stages + 1) * tile_bytes,
                     barriers, barriers + stages, barriers + 2 * stages, barriers + 2 * stages + 1};
  if (thread_index() == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_initialize(at.full + stage, 1);
      mbarrier_initialize(at.empty + stage, consumer_warps);
    }
    mbarrier_initialize(at.weights_full, 1);
    mbarrier_initialize(at.weights_empty, 2 * consumer_warps);
    mbarrier_fence();
    prefetch_tensor_map(x);
  }
  cluster_arrive();
  cluster_wait();  // ready
  const int head = int(block_index() % heads), row = int(block_index() / heads) * rows * pieces;
  if (thread_index() < consumers) {
    give_up_registers<24>();
    if (thread_index() == 0)
      produce(at, x, w, row, head, int(batches));
    warp_barrier();
  } else {
    take_registers<232>();
    consume(at, y, row, head, int(batches));
    warp_barrier();
  }
  cluster_arrive();
  cluster_wait();  // done
}
)";

/// x[s1, s0, 4, 64] with strides given at run time, w[s0, 64], y[s1, s0, 4, 64].
inline LaunchPlan tilePlan() {
  using Kind = KernelArgument::Kind;
  const Extent rows{0, 0}, batches{0, 1}, heads{4, -1}, width{64, -1};
  LaunchPlan plan;
  plan.function = "scale_tiles";
  plan.inputs = {{"x", DType::bf16, {batches, rows, heads, width}, {-1, -1, -1, 1}, 16},
                 {"w", DType::bf16, {rows, width}, {}, 16}};
  plan.outputs = {{"y", DType::bf16, {batches, rows, heads, width}, {}, 16}};
  KernelLaunch kernel;
  kernel.name = "scale_tiles";
  kernel.threads = 256;
  kernel.sharedBytes = 4 * 8192 + 6 * 8;
  kernel.promisedBlocks = 2;
  kernel.cluster = 2;
  kernel.grid = KernelLaunch::Grid::tiles;
  kernel.tiles = {{{{{rows}}, 128}, {{{heads}}, 1}}, {{{{{2, -1}}}, 1}}};
  kernel.tensorMaps = {
      {DType::bf16,
       128,
       128,
       {{{{width}}, {}, -1, 64},
        {{{rows}}, {}, 1, 64},
        {{{heads}}, {}, 2, 1},
        {{{batches}}, {}, 0, 1}}},
      {DType::bf16, 128, 256, {{{{width}}, {}, -1, 64}, {{{rows}}, {{width}}, -1, 32}}},
      {DType::bf16,
       64,
       0,
       {{{{width}}, {}, -1, 32},
        {{{rows}}, {{heads, width}}, -1, 64},
        {{{heads}}, {{width}}, -1, 1},
        {{{batches}}, {{rows, heads, width}}, -1, 1}}}};
  kernel.arguments = {{Kind::tensorMap, "x", 0, {}, 0, 0, 0},
                      {Kind::tensorMap, "w", 0, {}, 0, 0, 1},
                      {Kind::tensorMap, "y", 0, {}, 0, 0, 2},
                      {Kind::size, "", 0, {{batches}}, 0}};
  kernel.roles = {{4, 24}, {4, 232}};
  plan.kernels = {kernel};
  return plan;
}

/// Tensors for it, of small whole numbers, whose products bf16 has; rows of x are 320 apart.
struct TileProblem {
  std::int64_t batches, rows;
  std::vector<std::uint16_t> x, w, y;

  TileProblem(std::int64_t batches, std::int64_t rows) : batches(batches), rows(rows) {
    for (std::int64_t i = 0; i < batches * rows * 320; ++i)
      x.push_back(bits(static_cast<float>(i * 7 % 17 - 8)));
    for (std::int64_t i = 0; i < rows * 64; ++i)
      w.push_back(bits(static_cast<float>(i * 5 % 11 + 1)));
    y.assign(static_cast<std::size_t>(batches * rows * 256), 0xffff);
  }
  static std::uint16_t bits(float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  static float value(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  std::vector<Buffer> inputs(void* xData, void* wData) const {
    return {{xData, {batches, rows, 4, 64}, {rows * 320, 320, 64, 1}}, {wData, {rows, 64}, {}}};
  }
  std::vector<Buffer> outputs(void* yData) const { return {{yData, {batches, rows, 4, 64}, {}}}; }
  /// What y should be.
  std::vector<std::uint16_t> expected() const {
    std::vector<std::uint16_t> result;
    for (std::int64_t row = 0; row < batches * rows; ++row)
      for (std::int64_t i = 0; i < 256; ++i)
        result.push_back(bits(value(x[static_cast<std::size_t>(row * 320 + i)]) *
                              value(w[static_cast<std::size_t>(row % rows * 64 + i % 64)])));
    return result;
  }
};

} // namespace kiln::test
