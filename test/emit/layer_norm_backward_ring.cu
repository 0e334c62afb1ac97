// printed by kiln-translate
// kiln_layer_norm_backward: #kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, stages = 5>
// kiln.launch {"function":"layer_norm_backward","inputs":[{"name":"x","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16,"older":true},{"name":"gamma","dtype":"f32","shape":[128],"strides":[1],"alignment":16},{"name":"mean","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"rstd","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"dy","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16}],"outputs":[{"name":"dx","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"dgamma","dtype":"f32","shape":[128],"strides":[1],"alignment":16},{"name":"dbeta","dtype":"f32","shape":[128],"strides":[1],"alignment":16}],"workspaces":[{"name":"kiln_layer_norm_backward_partials","dtype":"f32","elements":256,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_layer_norm_backward","schedule":"#kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, stages = 5>","threads":288,"sharedBytes":84560,"promisedBlocks":2,"programmatic":true,"cluster":1,"grid":"resident","rowsPerBlock":32,"blocks":2,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"dy"},{"kind":"buffer","name":"mean"},{"kind":"buffer","name":"rstd"},{"kind":"buffer","name":"gamma"},{"kind":"buffer","name":"dx"},{"kind":"buffer","name":"kiln_layer_norm_backward_partials"},{"kind":"rows","product":["s0"]}],"family":"rows"},{"name":"kiln_layer_norm_backward_columns","schedule":"","threads":512,"sharedBytes":2048,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"fixed","rowsPerBlock":1,"blocks":8,"rows":[],"arguments":[{"kind":"buffer","name":"kiln_layer_norm_backward_partials"},{"kind":"blocks","kernel":0},{"kind":"buffer","name":"dgamma"},{"kind":"buffer","name":"dbeta"}],"family":"rows"}]}
#include "ring.cuh"
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(288, 2)
kiln_layer_norm_backward(const bf16* x, const bf16* dy, const float* mean, const float* rstd,
                         const float* gamma, bf16* dx, float* kiln_layer_norm_backward_partials,
                         i64 row_count) {
  using Tile = RowTile<128 /*columns*/, 16 /*lanes*/, 8 /*vector*/, 2 /*rows*/, 256 /*threads*/,
      1 /*movers*/>;
  const RowMap<1> rows_128{{0}, {128}};
  Ring<Tile, 5 /*stages*/, 16896 /*bytes*/> ring(shared_memory() + 0);
  static_assert(ring_bytes<decltype(ring)>() <= 84560);
  if (ring.moves()) {
    const auto older = [&](const RingStage& stage) {
      stage.copy<128>(x, 8192);
    };
    const auto rest = [&](const RingStage& stage) {
      stage.copy<128>(dy, 0);
      stage.copy_rows(mean, 16384);
      stage.copy_rows(rstd, 16640);
    };
    return ring.move(row_count, older, rest);
  }
  wait_for_predecessor();
  release_successor();
  float dgamma_sum[Tile::chunks][Tile::vector] = {};
  float dbeta_sum[Tile::chunks][Tile::vector] = {};
  for (Tile at(row_count, block_index()); at.any(); at.advance(block_count())) {
    ring.await();
    Registers<Tile, bf16> dy_tile;
    ring.read(at, dy_tile, 0);
    Registers<Tile, bf16> x_tile;
    ring.read(at, x_tile, 8192);
    float mean_r[Tile::rows];
    ring.read_rows(at, mean_r, mean, 16384);
    float rstd_r[Tile::rows];
    ring.read_rows(at, rstd_r, rstd, 16640);
    ring.release();
    float row_r[Tile::rows];
    // layer_norm_backward_ring.mlir:7
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
    row_reduce<Sum>(at, shared_memory() + 84560, mean_r_1, mean_r_2);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      mean_r_1[r] = mean_r_1[r] / 128.0f;
      mean_r_2[r] = mean_r_2[r] / 128.0f;
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
        store<8>(at, r, c, dx, rows_128, dx_c);
      }
    }
  }
  static_assert(partial_columns_bytes<Tile>() <= 4096);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_layer_norm_backward_partials + block_index() * 256 + 0, dgamma_sum);
  static_assert(partial_columns_bytes<Tile>() <= 4096);
  store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
                        kiln_layer_norm_backward_partials + block_index() * 256 + 128, dbeta_sum);
}

KILN_KERNEL(512, 1)
kiln_layer_norm_backward_columns(const float* partials, i64 lines, float* dgamma, float* dbeta) {
  release_successor();
  wait_for_predecessor();
  static_assert(sum_partials_bytes<512>() <= 2048);
  const float total = sum_partials<512>(partials, lines, 256, 256, shared_memory() + 0);
  store_total(total, 0, 128, dgamma);
  store_total(total, 128, 128, dbeta);
}
