// printed by kiln-translate
// kiln_cross_entropy_with_gradient: #kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 4, grid = one_shot, keep = registers, launch = programmatic>
// kiln.launch {"function":"cross_entropy_with_gradient","inputs":[{"name":"x","dtype":"bf16","shape":["s0",1000],"strides":[1000,1],"alignment":16},{"name":"target","dtype":"i64","shape":["s0"],"strides":[1],"alignment":16},{"name":"dloss","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16}],"outputs":[{"name":"loss","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"dx","dtype":"bf16","shape":["s0",1000],"strides":[1000,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_cross_entropy_with_gradient","schedule":"#kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 4, grid = one_shot, keep = registers, launch = programmatic>","threads":128,"sharedBytes":0,"promisedBlocks":4,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":4,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"target"},{"kind":"buffer","name":"dloss"},{"kind":"buffer","name":"lse"},{"kind":"buffer","name":"loss"},{"kind":"buffer","name":"dx"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 4)
kiln_cross_entropy_with_gradient(const bf16* x, const i64* target, const float* dloss, float* lse,
                                 float* loss, bf16* dx, i64 row_count) {
  using Tile = RowTile<1000 /*columns*/, 32 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_1000{{0}, {1000}};
  const RowMap<1> rows_1{{0}, {1}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Registers<Tile, bf16> x_tile;
  load<8>(at, x_tile, x, rows_1000);
  i64 target_r[Tile::rows];
  load_rows(at, target_r, target, rows_1);
  float dloss_r[Tile::rows];
  load_rows(at, dloss_r, dloss, rows_1);
  bf16 picked_r[Tile::rows];
  pick_rows(at, picked_r, x, rows_1000, target_r);
  float row_r[Tile::rows];
  bool row_r_1[Tile::rows];
  bool row_r_2[Tile::rows];
  float row_r_3[Tile::rows];
  // cross_entropy_with_gradient.mlir:7
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r[r] = float(picked_r[r]);
    const bool t = u64(target_r[r]) < u64(1000ll);
    row_r_1[r] = t;
    row_r_2[r] = target_r[r] == -100ll;
    row_r_3[r] = t ? dloss_r[r] : bits_to_float(0x7fc00000u);
  }
  float largest_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    largest_r[r] = Max::identity();
  }
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c)) continue;
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      largest_r[r] = combine_chunk<Max>(at, c, x_tile.get(r, c), largest_r[r]);
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 0);
  row_reduce<Max>(at, shared_memory() + 0, largest_r);
  float row_r_4[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r_4[r] = row_r[r] - largest_r[r];
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
        sum_r[r] += fast_exp(float(x_tile_c[i]) - largest_r[r]);
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 0);
  row_reduce<Sum>(at, shared_memory() + 0, sum_r);
  float row_r_5[Tile::rows];
  float row_r_6[Tile::rows];
  float lse_r[Tile::rows];
  float loss_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const float t_1 = logf(sum_r[r]);
    const float t_2 = t_1 + -16.0f;
    row_r_5[r] = t_2;
    row_r_6[r] = row_r_3[r] * expf(t_2 - t_1);
    lse_r[r] = largest_r[r] + t_1;
    loss_r[r] = row_r_2[r] ? 0.0f : (row_r_1[r] ? t_1 - row_r_4[r] : bits_to_float(0x7fc00000u));
  }
  static_assert(staged_rows_bytes<Tile>(2) <= 0);
  stage_rows(at, shared_memory() + 0, lse_r, loss_r);
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c)) continue;
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c_1 = x_tile.get(r, c);
      Vec<float, Tile::vector> dx_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        const i64 column = at.column(c) + i;
        dx_c[i] = row_r_2[r] ? 0.0f : fast_exp(float(x_tile_c_1[i]) - largest_r[r] - row_r_5[r]) *
            row_r_6[r] - (column == target_r[r] ? 1.0f : 0.0f) * row_r_3[r];
      }
      store<8>(at, r, c, dx, rows_1000, dx_c);
    }
  }
  store_rows(at, shared_memory() + 0, RowStore{lse, rows_1, lse_r}, RowStore{loss, rows_1, loss_r});
}
