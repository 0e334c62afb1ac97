// printed by kiln-translate
// kiln_channel_first: #kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>
// kiln.launch {"function":"channel_first","inputs":[{"name":"x","dtype":"bf16","shape":["s0","s1",64],"strides":[-1,64,1],"alignment":16},{"name":"gamma","dtype":"f32","shape":[64],"strides":[1],"alignment":16},{"name":"beta","dtype":"f32","shape":[64],"strides":[1],"alignment":16}],"outputs":[{"name":"y","dtype":"bf16","shape":[64,"s0","s1"],"strides":[-1,-1,1],"alignment":16},{"name":"mean","dtype":"f32","shape":["s0","s1"],"strides":[-1,1],"alignment":16},{"name":"rstd","dtype":"f32","shape":["s0","s1"],"strides":[-1,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_channel_first","schedule":"#kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>","threads":128,"sharedBytes":5120,"promisedBlocks":8,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":32,"blocks":0,"rows":["s0","s1"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"gamma"},{"kind":"buffer","name":"beta"},{"kind":"buffer","name":"mean"},{"kind":"buffer","name":"rstd"},{"kind":"buffer","name":"y"},{"kind":"rows","product":["s0","s1"]},{"kind":"size","product":[1,"s0","s1"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 8)
kiln_channel_first(const bf16* x, const float* gamma, const float* beta, float* mean, float* rstd,
                   bf16* y, i64 row_count, i64 step_d0_d1_1) {
  using Tile = RowTile<64 /*columns*/, 8 /*lanes*/, 8 /*vector*/, 2 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_64{{0}, {64}};
  const RowMap<1> rows_1{{0}, {1}, step_d0_d1_1};
  const RowMap<1> rows_1_1{{0}, {1}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Registers<Tile, bf16> x_tile;
  load<8>(at, x_tile, x, rows_64);
  float mean_r[Tile::rows] = {};
  // channel_first.mlir:7
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c = x_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        mean_r[r] += float(x_tile_c[i]);
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 0);
  row_reduce<Sum>(at, shared_memory() + 4608, mean_r);
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    mean_r[r] = mean_r[r] / 64.0f;
  }
  float row_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r[r] = mean_r[r] * mean_r[r];
  }
  float mean_r_1[Tile::rows] = {};
  float mean_r_2[Tile::rows] = {};
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c_1 = x_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        const float t = float(x_tile_c_1[i]) - mean_r[r];
        mean_r_1[r] += t * t;
        mean_r_2[r] += t;
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(2) <= 0);
  row_reduce<Sum>(at, shared_memory() + 4608, mean_r_1, mean_r_2);
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    mean_r_1[r] = mean_r_1[r] / 64.0f;
    mean_r_2[r] = mean_r_2[r] / 64.0f;
  }
  float rstd_r[Tile::rows];
  float row_r_1[Tile::rows];
  float mean_r_3[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const float t_1 = row_r[r] <= mean_r_1[r] * 16.0f ? 0.0f : mean_r_2[r];
    const float rstd_1 = inverse_sqrt(maximum(mean_r_1[r] - t_1 * t_1, 0.0f) + 9.99999975e-06f);
    rstd_r[r] = rstd_1;
    row_r_1[r] = -(t_1 * rstd_1);
    mean_r_3[r] = mean_r[r] + t_1;
  }
  static_assert(staged_rows_bytes<Tile>(2) <= 512);
  stage_rows(at, shared_memory() + 4608, mean_r_3, rstd_r);
  Transposed<Tile, bf16> y_transposed(at, shared_memory() + 0);
  static_assert(y_transposed.bytes <= 4608);
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    const auto gamma_c = load_columns<8>(at, c, gamma);
    const auto beta_c = load_columns<8>(at, c, beta);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c_2 = x_tile.get(r, c);
      Vec<float, Tile::vector> y_transposed_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        y_transposed_c[i] = fmaf(float(x_tile_c_2[i]) - mean_r[r], rstd_r[r], row_r_1[r]) *
            gamma_c[i] + beta_c[i];
      }
      y_transposed.set(r, c, y_transposed_c);
    }
  }
  block_barrier();
  store_transposed(at, y_transposed, y, rows_1);
  store_rows(at, shared_memory() + 4608, RowStore{mean, rows_1_1, mean_r_3},
             RowStore{rstd, rows_1_1, rstd_r});
}
