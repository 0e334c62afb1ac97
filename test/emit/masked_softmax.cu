// printed by kiln-translate
// kiln_masked_softmax: #kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>
// kiln.launch {"function":"masked_softmax","inputs":[{"name":"s","dtype":"bf16","shape":["s0",256],"strides":[256,1],"alignment":16},{"name":"mask","dtype":"i1","shape":["s0",256],"strides":[256,1],"alignment":16}],"outputs":[{"name":"p","dtype":"bf16","shape":["s0",256],"strides":[256,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_masked_softmax","schedule":"#kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>","threads":128,"sharedBytes":0,"promisedBlocks":8,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":4,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"s"},{"kind":"buffer","name":"mask"},{"kind":"buffer","name":"p"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 8)
kiln_masked_softmax(const bf16* s, const u8* mask, bf16* p, i64 row_count) {
  using Tile = RowTile<256 /*columns*/, 32 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_256{{0}, {256}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Registers<Tile, u8> mask_tile;
  load<8>(at, mask_tile, mask, rows_256);
  Registers<Tile, bf16> s_tile;
  load<8>(at, s_tile, s, rows_256);
  float max_r[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    max_r[r] = Max::identity();
  }
  // masked_softmax.mlir:6
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto mask_tile_c = mask_tile.get(r, c);
      const auto s_tile_c = s_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        max_r[r] = Max::combine(max_r[r],
            mask_tile_c[i] ? float(s_tile_c[i]) * 0.125f : bits_to_float(0xff800000u));
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 0);
  row_reduce<Max>(at, shared_memory() + 0, max_r);
  float row_r[Tile::rows];
  float row_r_1[Tile::rows];
  float row_r_2[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const float t = max_r[r] == bits_to_float(0xff800000u) ? 0.0f : max_r[r];
    const float t_1 = t + -16.0f;
    row_r[r] = t_1;
    row_r_1[r] = t;
    row_r_2[r] = expf(t_1 - t);
  }
  float sum_r[Tile::rows] = {};
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto mask_tile_c_1 = mask_tile.get(r, c);
      const auto s_tile_c_1 = s_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        sum_r[r] += fast_exp((mask_tile_c_1[i] ? float(s_tile_c_1[i]) * 0.125f :
            bits_to_float(0xff800000u)) - row_r_1[r]);
      }
    }
  }
  static_assert(row_reduce_bytes<Tile>(1) <= 0);
  row_reduce<Sum>(at, shared_memory() + 0, sum_r);
  float row_r_3[Tile::rows];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    row_r_3[r] = 1.0f / (sum_r[r] == 0.0f ? 1.0f : sum_r[r]) * row_r_2[r];
  }
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto mask_tile_c_2 = mask_tile.get(r, c);
      const auto s_tile_c_2 = s_tile.get(r, c);
      Vec<float, Tile::vector> p_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        p_c[i] = fast_exp((mask_tile_c_2[i] ? float(s_tile_c_2[i]) * 0.125f :
            bits_to_float(0xff800000u)) - row_r[r]) * row_r_3[r];
      }
      store<8>(at, r, c, p, rows_256, p_c);
    }
  }
}
