// printed by kiln-translate
// kiln_layer_norm: #kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>
// kiln.launch {"function":"layer_norm","inputs":[{"name":"x","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"gamma","dtype":"f32","shape":[128],"strides":[1],"alignment":16},{"name":"beta","dtype":"f32","shape":[128],"strides":[1],"alignment":16}],"outputs":[{"name":"y","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"mean","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"rstd","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_layer_norm","schedule":"#kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>","threads":128,"sharedBytes":256,"promisedBlocks":8,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":16,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"gamma"},{"kind":"buffer","name":"beta"},{"kind":"buffer","name":"y"},{"kind":"buffer","name":"mean"},{"kind":"buffer","name":"rstd"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 8)
kiln_layer_norm(const bf16* x, const float* gamma, const float* beta, bf16* y, float* mean,
                float* rstd, i64 row_count) {
  using Tile = RowTile<128 /*columns*/, 16 /*lanes*/, 8 /*vector*/, 2 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_128{{0}, {128}};
  const RowMap<1> rows_1{{0}, {1}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Registers<Tile, bf16> x_tile;
  load<8>(at, x_tile, x, rows_128);
  float mean_r[Tile::rows] = {};
  // layer_norm.mlir:7
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
  row_reduce<Sum>(at, shared_memory() + 0, mean_r);
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    mean_r[r] = mean_r[r] / 128.0f;
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
  row_reduce<Sum>(at, shared_memory() + 0, mean_r_1, mean_r_2);
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    mean_r_1[r] = mean_r_1[r] / 128.0f;
    mean_r_2[r] = mean_r_2[r] / 128.0f;
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
  static_assert(staged_rows_bytes<Tile>(2) <= 256);
  stage_rows(at, shared_memory() + 0, mean_r_3, rstd_r);
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    const auto gamma_c = load_columns<8>(at, c, gamma);
    const auto beta_c = load_columns<8>(at, c, beta);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c_2 = x_tile.get(r, c);
      Vec<float, Tile::vector> y_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        y_c[i] = fmaf(float(x_tile_c_2[i]) - mean_r[r], rstd_r[r], row_r_1[r]) * gamma_c[i] +
            beta_c[i];
      }
      store<8>(at, r, c, y, rows_128, y_c);
    }
  }
  block_barrier();
  store_rows(at, shared_memory() + 0, RowStore{mean, rows_1, mean_r_3},
             RowStore{rstd, rows_1, rstd_r});
}
