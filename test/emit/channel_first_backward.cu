// printed by kiln-translate
// kiln_channel_first_backward: #kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 128, blocks = 4, grid = resident, keep = registers, launch = programmatic>
// kiln.launch {"function":"channel_first_backward","inputs":[{"name":"x","dtype":"bf16","shape":["s0","s1",64],"strides":[-1,64,1],"alignment":16},{"name":"gamma","dtype":"f32","shape":[64],"strides":[1],"alignment":16},{"name":"mean","dtype":"f32","shape":["s0","s1"],"strides":[-1,1],"alignment":16},{"name":"rstd","dtype":"f32","shape":["s0","s1"],"strides":[-1,1],"alignment":16},{"name":"dy","dtype":"bf16","shape":[64,"s0","s1"],"strides":[-1,-1,1],"alignment":16}],"outputs":[{"name":"dx","dtype":"bf16","shape":["s0","s1",64],"strides":[-1,64,1],"alignment":16},{"name":"dgamma","dtype":"f32","shape":[64],"strides":[1],"alignment":16},{"name":"dbeta","dtype":"f32","shape":[64],"strides":[1],"alignment":16}],"workspaces":[{"name":"kiln_channel_first_backward_partials","dtype":"f32","elements":128,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_channel_first_backward","schedule":"#kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 128, blocks = 4, grid = resident, keep = registers, launch = programmatic>","threads":128,"sharedBytes":4608,"promisedBlocks":4,"programmatic":true,"cluster":1,"grid":"resident","rowsPerBlock":32,"blocks":4,"rows":["s0","s1"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"dy"},{"kind":"buffer","name":"mean"},{"kind":"buffer","name":"rstd"},{"kind":"buffer","name":"gamma"},{"kind":"buffer","name":"dx"},{"kind":"buffer","name":"kiln_channel_first_backward_partials"},{"kind":"rows","product":["s0","s1"]},{"kind":"size","product":[1,"s0","s1"]}],"family":"rows"},{"name":"kiln_channel_first_backward_columns","schedule":"","threads":512,"sharedBytes":2048,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"fixed","rowsPerBlock":1,"blocks":4,"rows":[],"arguments":[{"kind":"buffer","name":"kiln_channel_first_backward_partials"},{"kind":"blocks","kernel":0},{"kind":"buffer","name":"dgamma"},{"kind":"buffer","name":"dbeta"}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 4)
kiln_channel_first_backward(const bf16* x, const bf16* dy, const float* mean, const float* rstd,
                            const float* gamma, bf16* dx,
                            float* kiln_channel_first_backward_partials, i64 row_count,
                            i64 step_d0_d1_1) {
  using Tile = RowTile<64 /*columns*/, 8 /*lanes*/, 8 /*vector*/, 2 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_1{{0}, {1}, step_d0_d1_1};
  const RowMap<1> rows_64{{0}, {64}};
  const RowMap<1> rows_1_1{{0}, {1}};
  wait_for_predecessor();
  float dgamma_sum[Tile::chunks][Tile::vector] = {};
  float dbeta_sum[Tile::chunks][Tile::vector] = {};
  for (Tile at(row_count, block_index()); at.any(); at.advance(block_count())) {
    Transposed<Tile, bf16> dy_tile(at, shared_memory() + 0);
    static_assert(dy_tile.bytes <= 4608);
    load_transposed(at, dy_tile, dy, rows_1);
    Registers<Tile, bf16> x_tile;
    load<8>(at, x_tile, x, rows_64);
    float mean_r[Tile::rows];
    load_rows(at, mean_r, mean, rows_1_1);
    float rstd_r[Tile::rows];
    load_rows(at, rstd_r, rstd, rows_1_1);
    block_barrier();
    float row_r[Tile::rows];
    // channel_first_backward.mlir:7
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      row_r[r] = rstd_r[r] * rstd_r[r];
    }
    float mean_r_1[Tile::rows] = {};
    float mean_r_2[Tile::rows] = {};
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
      const auto gamma_c = load_columns<8>(at, c, gamma);
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r) {
        if (!at.valid(r)) continue;
        const auto dy_tile_c = dy_tile.get(r, c);
        const auto x_tile_c = x_tile.get(r, c);
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i) {
          const float t = float(dy_tile_c[i]);
          const float t_1 = t * gamma_c[i];
          mean_r_1[r] += t_1;
          const float t_2 = (float(x_tile_c[i]) - mean_r[r]) * rstd_r[r];
          mean_r_2[r] += t_1 * t_2;
          dgamma_sum[c][i] += t * t_2;
          dbeta_sum[c][i] += t;
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
    float row_r_1[Tile::rows];
    float row_r_2[Tile::rows];
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      row_r_1[r] = -mean_r_1[r];
      row_r_2[r] = mean_r_2[r] * row_r[r];
    }
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
      const auto gamma_c_1 = load_columns<8>(at, c, gamma);
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r) {
        const auto dy_tile_c_1 = dy_tile.get(r, c);
        const auto x_tile_c_1 = x_tile.get(r, c);
        Vec<float, Tile::vector> dx_c;
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i) {
          dx_c[i] = fmaf(fmaf(float(dy_tile_c_1[i]), gamma_c_1[i], row_r_1[r]), rstd_r[r],
              -((float(x_tile_c_1[i]) - mean_r[r]) * row_r_2[r]));
        }
        store<8>(at, r, c, dx, rows_64, dx_c);
      }
    }
    block_barrier();
  }
  release_successor();
  static_assert(partial_columns_bytes<Tile>() <= 1024);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_channel_first_backward_partials + block_index() * 128 + 0, dgamma_sum);
  static_assert(partial_columns_bytes<Tile>() <= 1024);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_channel_first_backward_partials + block_index() * 128 + 64, dbeta_sum);
}

KILN_KERNEL(512, 1)
kiln_channel_first_backward_columns(const float* partials, i64 lines, float* dgamma, float* dbeta) {
  wait_for_predecessor();
  release_successor();
  static_assert(sum_partials_bytes<512>() <= 2048);
  const float total = sum_partials<512>(partials, lines, 128, 128, shared_memory() + 0);
  store_total(total, 0, 64, dgamma);
  store_total(total, 64, 64, dbeta);
}
