// printed by kiln-translate
// kiln_softmax: #kiln.schedule<lanes = 640, vector = 8, rows = 1, threads = 320, blocks = 2, grid = one_shot, keep = shared, launch = programmatic, cluster = 2>
// kiln.launch {"function":"softmax","inputs":[{"name":"x","dtype":"bf16","shape":["s0",50304],"strides":[50304,1],"alignment":16}],"outputs":[{"name":"y","dtype":"bf16","shape":["s0",50304],"strides":[50304,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_softmax","schedule":"#kiln.schedule<lanes = 640, vector = 8, rows = 1, threads = 320, blocks = 2, grid = one_shot, keep = shared, launch = programmatic, cluster = 2>","threads":320,"sharedBytes":51360,"promisedBlocks":2,"programmatic":true,"cluster":2,"grid":"oneShot","rowsPerBlock":1,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"y"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(320, 2)
kiln_softmax(const bf16* x, bf16* y, i64 row_count) {
  using Tile = RowTile<50304 /*columns*/, 640 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 320 /*threads*/,
      0 /*movers*/, 2 /*cluster*/>;
  const RowMap<1> rows_50304{{0}, {50304}};
  cluster_arrive();
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index() / Tile::cluster);
  Shared<Tile, bf16> x_tile(shared_memory() + 0);
  static_assert(x_tile.bytes <= 51200);
  load<8>(at, x_tile, x, rows_50304);
  wait_for_copies();
  float max_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    max_r[r] = Max::identity();
  }
  // softmax_cluster.mlir:7
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c)) continue;
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      max_r[r] = combine_chunk<Max>(at, c, x_tile.get(r, c), max_r[r]);
    }
  }
  cluster_wait();
  static_assert(row_reduce_bytes<Tile>(1) <= 80);
  row_reduce<Max>(at, shared_memory() + 51200, max_r);
  float row_r[Tile::rows];
  float row_r_1[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const float t = max_r[r] + -16.0f;
    row_r[r] = t;
    row_r_1[r] = expf(t - max_r[r]);
  }
  float sum_r[Tile::rows] = {};
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c)) continue;
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c = x_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        sum_r[r] += fast_exp(float(x_tile_c[i]) - max_r[r]);
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 80);
  row_reduce<Sum>(at, shared_memory() + 51280, sum_r);
  float row_r_2[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r_2[r] = 1.0f / sum_r[r] * row_r_1[r];
  }
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c)) continue;
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c_1 = x_tile.get(r, c);
      Vec<float, Tile::vector> y_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        y_c[i] = fast_exp(float(x_tile_c_1[i]) - row_r[r]) * row_r_2[r];
      }
      store<8>(at, r, c, y, rows_50304, y_c);
    }
  }
}
