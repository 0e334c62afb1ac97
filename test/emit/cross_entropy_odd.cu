// printed by kiln-translate
// kiln_cross_entropy: #kiln.schedule<lanes = 64, vector = 8, rows = 1, threads = 64, blocks = 8, grid = one_shot, keep = shared, launch = programmatic>
// kiln.launch {"function":"cross_entropy","inputs":[{"name":"x","dtype":"bf16","shape":["s0",1001],"strides":[1001,1],"alignment":16},{"name":"target","dtype":"i64","shape":["s0"],"strides":[1],"alignment":16}],"outputs":[{"name":"loss","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0"],"strides":[1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_cross_entropy","schedule":"#kiln.schedule<lanes = 64, vector = 8, rows = 1, threads = 64, blocks = 8, grid = one_shot, keep = shared, launch = programmatic>","threads":64,"sharedBytes":2080,"promisedBlocks":8,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":1,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"target"},{"kind":"buffer","name":"loss"},{"kind":"buffer","name":"lse"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(64, 8)
kiln_cross_entropy(const bf16* x, const i64* target, float* loss, float* lse, i64 row_count) {
  using Tile = RowTile<1001 /*columns*/, 64 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 64 /*threads*/>;
  const RowMap<1> rows_1001{{0}, {1001}};
  const RowMap<1> rows_1{{0}, {1}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Shared<Tile, bf16> x_tile(shared_memory() + 0);
  static_assert(x_tile.bytes <= 2048);
  load<8, 2>(at, x_tile, x, rows_1001);
  i64 target_r[Tile::rows];
  load_rows(at, target_r, target, rows_1);
  bf16 picked_r[Tile::rows];
  pick_rows(at, picked_r, x, rows_1001, target_r);
  float row_r[Tile::rows];
  bool row_r_1[Tile::rows];
  bool row_r_2[Tile::rows];
  // cross_entropy_odd.mlir:7
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r[r] = float(picked_r[r]);
    row_r_1[r] = u64(target_r[r]) < u64(1001ll);
    row_r_2[r] = target_r[r] == -100ll;
  }
  float largest_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    largest_r[r] = Max::identity();
  }
  float sum_r[Tile::rows] = {};
  combine_exponentials<2>(at, x_tile, largest_r, sum_r);
  float own_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    own_r[r] = largest_r[r];
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 8);
  row_reduce<Max>(at, shared_memory() + 2048, largest_r);
  float row_r_3[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r_3[r] = row_r[r] - largest_r[r];
  }
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    sum_r[r] = sum_r[r] * fast_exp(own_r[r] - largest_r[r]);
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 8);
  row_reduce<Sum>(at, shared_memory() + 2064, sum_r);
  float loss_r[Tile::rows];
  float lse_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const float t = logf(sum_r[r]);
    loss_r[r] = row_r_2[r] ? 0.0f : (row_r_1[r] ? t - row_r_3[r] : bits_to_float(0x7fc00000u));
    lse_r[r] = largest_r[r] + t;
  }
  static_assert(staged_rows_bytes<Tile>(2) <= 0);
  stage_rows(at, shared_memory() + 2080, loss_r, lse_r);
  store_rows(at, shared_memory() + 2080, RowStore{loss, rows_1, loss_r},
             RowStore{lse, rows_1, lse_r});
}
