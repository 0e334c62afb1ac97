// printed by kiln-translate
// kiln_outlined_0: #kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 16, grid = one_shot, keep = shared, launch = programmatic>
// kiln_outlined_1: #kiln.schedule<lanes = 32, vector = 4, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = older_first>
// kiln.launch {"function":"outlined","inputs":[{"name":"x","dtype":"f32","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"s","dtype":"f32","shape":["s0",128],"strides":[128,1],"alignment":16}],"outputs":[{"name":"y","dtype":"f32","shape":["s0",128],"strides":[128,1],"alignment":16}],"workspaces":[{"name":"between0","dtype":"f32","elements":1,"blocksOf":-1,"sizes":["s0",128]}],"kernels":[{"name":"kiln_outlined_0","schedule":"#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 16, grid = one_shot, keep = shared, launch = programmatic>","threads":128,"sharedBytes":4096,"promisedBlocks":16,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":8,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"s"},{"kind":"buffer","name":"between0"},{"kind":"rows","product":["s0"]}],"family":"rows"},{"name":"kiln_outlined_1","schedule":"#kiln.schedule<lanes = 32, vector = 4, rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = older_first>","threads":128,"sharedBytes":0,"promisedBlocks":8,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":8,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"between0"},{"kind":"buffer","name":"y"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_OUTLINE float outlined_sine(float a) {
  return sine(a);
}

KILN_OUTLINE float outlined_cosine(float a) {
  return cosine(a);
}

KILN_OUTLINE float outlined_quotient(float a, float b) {
  return a / b;
}

KILN_OUTLINE float outlined_erf(float a) {
  return erff(a);
}

KILN_OUTLINE float outlined_power(float a, float b) {
  return powf(a, b);
}

KILN_OUTLINE float outlined_log2(float a) {
  return log2f(a);
}

KILN_OUTLINE float outlined_log(float a) {
  return logf(a);
}

KILN_OUTLINE float outlined_expm1(float a) {
  return expm1f(a);
}

KILN_OUTLINE float outlined_near_sine(float a) {
  return near_sine(a);
}

KILN_OUTLINE float outlined_near_cosine(float a) {
  return near_cosine(a);
}

KILN_OUTLINE float outlined_inverse_sqrt(float a) {
  return inverse_sqrt(a);
}

KILN_KERNEL(128, 16)
kiln_outlined_0(const float* s, float* between0, i64 row_count) {
  using Tile = RowTile<128 /*columns*/, 16 /*lanes*/, 4 /*vector*/, 1 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_128{{0}, {128}};
  wait_for_predecessor();
  release_successor();
  const Tile at(row_count, block_index());
  Shared<Tile, float> s_tile(shared_memory() + 0);
  static_assert(s_tile.bytes <= 4096);
  load<4>(at, s_tile, s, rows_128);
  wait_for_copies();
  // outlined.mlir:7
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto s_tile_c = s_tile.get(r, c);
      Vec<float, Tile::vector> between0_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        between0_c[i] = sine(s_tile_c[i]);
      }
      store<4>(at, r, c, between0, rows_128, between0_c);
    }
  }
}

KILN_KERNEL(128, 8)
kiln_outlined_1(const float* x, const float* between0, float* y, i64 row_count) {
  using Tile = RowTile<128 /*columns*/, 32 /*lanes*/, 4 /*vector*/, 2 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_128{{0}, {128}};
  const Tile at(row_count, block_index());
  Registers<Tile, float> x_tile;
  load<4>(at, x_tile, x, rows_128);
  wait_for_predecessor();
  release_successor();
  Registers<Tile, float> between0_tile;
  load<4>(at, between0_tile, between0, rows_128);
  // outlined.mlir:24
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c = x_tile.get(r, c);
      const auto between0_tile_c = between0_tile.get(r, c);
      Vec<float, Tile::vector> y_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        const float t = outlined_sine(x_tile_c[i]);
        const float t_1 = outlined_cosine(t);
        const float t_2 = outlined_quotient(between0_tile_c[i], t_1);
        y_c[i] = outlined_log2(outlined_power(t_1, outlined_erf(outlined_quotient(t_2, t_2 * t)))) *
            outlined_sine(t_1) +
            (outlined_near_cosine(outlined_near_sine(outlined_expm1(outlined_log(t_1)))) +
            outlined_inverse_sqrt(t_1));
      }
      store<4>(at, r, c, y, rows_128, y_c);
    }
  }
}
