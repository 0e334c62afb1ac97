// printed by kiln-translate
// kiln_gate: #kiln.schedule<lanes = 16, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>
// kiln.launch {"function":"gate","inputs":[{"name":"x","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"g","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16},{"name":"bias","dtype":"f32","shape":[128],"strides":[1],"alignment":16}],"outputs":[{"name":"y","dtype":"bf16","shape":["s0",128],"strides":[128,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_gate","schedule":"#kiln.schedule<lanes = 16, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>","threads":128,"sharedBytes":0,"promisedBlocks":8,"programmatic":false,"cluster":1,"grid":"oneShot","rowsPerBlock":8,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"x"},{"kind":"buffer","name":"g"},{"kind":"buffer","name":"bias"},{"kind":"buffer","name":"y"},{"kind":"rows","product":["s0"]}],"family":"rows"}]}
#include "row.cuh"
using namespace kiln;

KILN_KERNEL(128, 8)
kiln_gate(const bf16* x, const bf16* g, const float* bias, bf16* y, i64 row_count) {
  using Tile = RowTile<128 /*columns*/, 16 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 128 /*threads*/>;
  const RowMap<1> rows_128{{0}, {128}};
  const Tile at(row_count, block_index());
  Registers<Tile, bf16> x_tile;
  load<8>(at, x_tile, x, rows_128);
  Registers<Tile, bf16> g_tile;
  load<8>(at, g_tile, g, rows_128);
  // gate.mlir:17
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    const auto bias_c = load_columns<8>(at, c, bias);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_tile_c = x_tile.get(r, c);
      const auto g_tile_c = g_tile.get(r, c);
      Vec<float, Tile::vector> y_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        y_c[i] = float(x_tile_c[i]) / (expf(-(float(g_tile_c[i]) + bias_c[i])) + 1.0f);
      }
      store<8>(at, r, c, y, rows_128, y_c);
    }
  }
}
