// printed by kiln-translate
// kiln_layer_norm_backward: #kiln.schedule<lanes = 256, vector = 1, rows = 1, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, columns = shared, stages = 3>
// kiln.launch {"function":"layer_norm_backward","inputs":[{"name":"x","dtype":"bf16","shape":["s0",4095],"strides":[4095,1],"alignment":16,"older":true},{"name":"gamma","dtype":"f32","shape":[4095],"strides":[1],"alignment":16},{"name":"mean","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"rstd","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"dy","dtype":"bf16","shape":["s0",4095],"strides":[4095,1],"alignment":16}],"outputs":[{"name":"dx","dtype":"bf16","shape":["s0",4095],"strides":[4095,1],"alignment":16},{"name":"dgamma","dtype":"f32","shape":[4095],"strides":[1],"alignment":16},{"name":"dbeta","dtype":"f32","shape":[4095],"strides":[1],"alignment":16}],"workspaces":[{"name":"kiln_layer_norm_backward_partials","dtype":"f32","elements":8192,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_layer_norm_backward","schedule":"#kiln.schedule<lanes = 256, vector = 1, rows = 1, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, columns = shared, stages = 3>","threads":288,"sharedBytes":66416,"promisedBlocks":2,"programmatic":true,"cluster":1,"grid":"resident","rowsPerBlock":1,"blocks":2,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"dy"},{"kind":"buffer","name":"mean"},{"kind":"buffer","name":"rstd"},{"kind":"buffer","name":"gamma"},{"kind":"buffer","name":"dx"},{"kind":"buffer","name":"kiln_layer_norm_backward_partials"},{"kind":"rows","product":["s0"]}],"family":"rows"},{"name":"kiln_layer_norm_backward_columns","schedule":"","threads":256,"sharedBytes":2048,"promisedBlocks":4,"programmatic":true,"cluster":1,"grid":"fixed","rowsPerBlock":1,"blocks":128,"rows":[],"arguments":[{"kind":"buffer","name":"kiln_layer_norm_backward_partials"},{"kind":"blocks","kernel":0},{"kind":"buffer","name":"dgamma"},{"kind":"buffer","name":"dbeta"}],"family":"rows"}]}
#include "ring.cuh"
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(288, 2)
kiln_layer_norm_backward(const bf16* x, const bf16* dy, const float* mean, const float* rstd,
                         const float* gamma, bf16* dx, float* kiln_layer_norm_backward_partials,
                         i64 row_count) {
  using Tile = LooseTile<4095 /*columns*/, 256 /*lanes*/, 1 /*vector*/, 1 /*rows*/,
      256 /*threads*/>;
  const RowMap<1> rows_1{{0}, {1}};
  const RowMap<1> rows_4095{{0}, {4095}};
  Ring<Tile, 3 /*stages*/, 16640 /*bytes*/> ring(shared_memory() + 16384);
  static_assert(ring_bytes<decltype(ring)>() <= 49968);
  if (ring.moves()) {
    const auto older = [&](const RingStage& stage) {
      stage.copy_loose<4095>(x, row_count, 8320);
    };
    const auto rest = [&](const RingStage& stage) {
      stage.copy_loose<4095>(dy, row_count, 0);
      stage.prefetch_rows(mean);
      stage.prefetch_rows(rstd);
    };
    return ring.move(row_count, older, rest);
  }
  wait_for_predecessor();
  release_successor();
  static_assert(staged_columns_bytes<Tile, float>() <= 16384);
  const float* gamma_s = stage_columns<Tile, 1>(shared_memory() + 0, gamma);
  wait_for_copies();
  Tile::barrier();
  float dgamma_sum[Tile::chunks][Tile::vector] = {};
  float dbeta_sum[Tile::chunks][Tile::vector] = {};
  for (Tile at(row_count, block_index()); at.any(); at.advance(block_count())) {
    float mean_r[Tile::rows];
    load_rows(at, mean_r, mean, rows_1);
    float rstd_r[Tile::rows];
    load_rows(at, rstd_r, rstd, rows_1);
    ring.await();
    Registers<Tile, float> dy_tile;
    ring.read_loose(at, dy_tile, 0, dy);
    Registers<Tile, float> x_tile;
    ring.read_loose(at, x_tile, 8320, x);
    ring.release();
    float row_r[Tile::rows];
    // layer_norm_backward_loose.mlir:7
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      row_r[r] = rstd_r[r] * rstd_r[r];
    }
    float mean_r_1[Tile::rows] = {};
    float mean_r_2[Tile::rows] = {};
    if (at.valid(0)) {
#pragma unroll
      for (int c = 0; c < Tile::chunks; ++c) {
        if (!at.has(c)) continue;
        const auto gamma_s_c = staged_columns(at, c, gamma_s);
#pragma unroll
        for (int r = 0; r < Tile::rows; ++r) {
          const auto dy_tile_c = dy_tile.get(r, c);
          const auto x_tile_c = x_tile.get(r, c);
#pragma unroll
          for (int i = 0; i < Tile::vector; ++i) {
            const float t = float(dy_tile_c[i]);
            const float t_1 = t * gamma_s_c[i];
            mean_r_1[r] += t_1;
            const float t_2 = (float(x_tile_c[i]) - mean_r[r]) * rstd_r[r];
            mean_r_2[r] += t_1 * t_2;
            dgamma_sum[c][i] += t * t_2;
            dbeta_sum[c][i] += t;
          }
        }
      }
    }
    static_assert(row_reduce_bytes<Tile>(2) <= 64);
    row_reduce<Sum>(at, shared_memory() + 66352, mean_r_1, mean_r_2);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      mean_r_1[r] = divide_by(mean_r_1[r], 4095.0f);
      mean_r_2[r] = divide_by(mean_r_2[r], 4095.0f);
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
      if (!at.has(c)) continue;
      const auto gamma_s_c_1 = staged_columns(at, c, gamma_s);
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r) {
        const auto dy_tile_c_1 = dy_tile.get(r, c);
        const auto x_tile_c_1 = x_tile.get(r, c);
        Vec<float, Tile::vector> dx_c;
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i) {
          dx_c[i] = fmaf(fmaf(float(dy_tile_c_1[i]), gamma_s_c_1[i], row_r_1[r]), rstd_r[r],
              -((float(x_tile_c_1[i]) - mean_r[r]) * row_r_2[r]));
        }
        store<1>(at, r, c, dx, rows_4095, dx_c);
      }
    }
    Tile::barrier();
  }
  static_assert(partial_columns_bytes<Tile>() <= 0);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_layer_norm_backward_partials + block_index() * 8192 + 0, dgamma_sum);
  static_assert(partial_columns_bytes<Tile>() <= 0);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_layer_norm_backward_partials + block_index() * 8192 + 4095, dbeta_sum);
}

KILN_KERNEL(256, 4)
kiln_layer_norm_backward_columns(const float* partials, i64 lines, float* dgamma, float* dbeta) {
  release_successor();
  wait_for_predecessor();
  static_assert(sum_partials_bytes<256, 64>() <= 2048);
  const float total = sum_partials<256, 64>(partials, lines, 8190, 8192, shared_memory() + 0);
  store_total<64>(total, 0, 4095, dgamma);
  store_total<64>(total, 4095, 4095, dbeta);
}
