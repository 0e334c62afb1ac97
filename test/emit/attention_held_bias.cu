// printed by kiln-translate
// kiln_triangle: #kiln.schedule<attention, queries = 128, keys = 64, stages = 6, blocks = 1, launch = programmatic, groups = 16, products = warpgroups, bias = held, side = 2>
// kiln.launch {"function":"triangle","inputs":[{"name":"q","dtype":"bf16","shape":["s0",4,256,32],"strides":[32768,8192,32,1],"alignment":16},{"name":"k","dtype":"bf16","shape":["s0",4,256,32],"strides":[32768,8192,32,1],"alignment":16},{"name":"v","dtype":"bf16","shape":["s0",4,256,32],"strides":[32768,8192,32,1],"alignment":16},{"name":"bias","dtype":"bf16","shape":[1,4,256,256],"strides":[262144,65536,256,1],"alignment":16},{"name":"mask","dtype":"i1","shape":["s0",1,1,256],"strides":[256,256,256,1],"alignment":16}],"outputs":[{"name":"o","dtype":"bf16","shape":["s0",4,256,32],"strides":[32768,8192,32,1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0",4,256],"strides":[1024,256,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_triangle","schedule":"#kiln.schedule<attention, queries = 128, keys = 64, stages = 6, blocks = 1, launch = programmatic, groups = 16, products = warpgroups, bias = held, side = 2>","threads":640,"sharedBytes":217552,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":[256],"tile":128},{"product":[4,1],"tile":1},{"product":[16],"tile":1},{"product":["s0"],"tile":1099511627776}]],"arguments":[{"kind":"tensorMap","name":"q","map":0},{"kind":"tensorMap","name":"k","map":1},{"kind":"tensorMap","name":"v","map":2},{"kind":"tensorMap","name":"bias","map":3},{"kind":"size","product":["s0"]},{"kind":"buffer","name":"mask"},{"kind":"buffer","name":"o"},{"kind":"buffer","name":"lse"},{"kind":"size","product":["s0"]}],"family":"attention","tensorMaps":[{"dtype":"bf16","swizzle":64,"promotion":0,"dimensions":[{"size":[32],"stride":[],"box":32},{"size":[256],"stride":[32],"box":128},{"size":["s0",4],"stride":[8192],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":64,"promotion":0,"dimensions":[{"size":[32],"stride":[],"box":32},{"size":[256],"stride":[32],"box":64},{"size":["s0",4],"stride":[8192],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":64,"promotion":0,"dimensions":[{"size":[32],"stride":[],"box":32},{"size":[256],"stride":[32],"box":64},{"size":["s0",4],"stride":[8192],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":128,"promotion":0,"dimensions":[{"size":[256],"stride":[],"box":64},{"size":[256],"stride":[256],"box":128},{"size":[1,4],"stride":[65536],"box":1},{"size":[1],"stride":[8],"box":1}]}],"roles":[{"warps":16,"registers":112},{"warps":4,"registers":32}],"multiplyAdds":["s0",4,256,256,64]}]}
#include "attention_shared_bias.cuh"
using namespace kiln;

KILN_KERNEL(640, 1)
kiln_triangle(KILN_TENSOR_MAP q_map, KILN_TENSOR_MAP k_map, KILN_TENSOR_MAP v_map,
              KILN_TENSOR_MAP bias_map, i64 size2, const u8* mask, bf16* o, float* lse,
              i64 sharing) {
  wait_for_predecessor();
  release_successor();
  const RowMap<2> rows_1_4{{0, size2}, {1, 4}};
  const RowMap<2> rows_0_256{{0, size2}, {0, 256}};
  const auto mask_rows = head_rows<16>(mask, rows_0_256, 0ll);
  const Sight<OneSequence> sight{256ll, 256ll, Causal::none, -1 /*left*/, -1 /*right*/, {}};
  const NoDropout dropout{};
  const auto scores = make_scores(sight, 1.767766920e-01f /*scale*/, 0.0e+00f /*softcap*/,
      NoTensor{}, mask_rows, dropout, rows_1_4);
  const RowMap<2> rows_8192_32768{{0, size2}, {8192, 32768}};
  const auto o_rows = head_rows<8>(o, rows_8192_32768, 32ll);
  const RowMap<2> rows_256_1024{{0, size2}, {256, 1024}};
  const auto lse_rows = head_rows<1>(lse, rows_256_1024, 1ll);
  // attention_held_bias.mlir:8
  using Tile = SharedBiasTile<bf16, 32 /*width*/, 32 /*value width*/, 128 /*queries*/, 64 /*keys*/,
      6 /*stages*/, 2 /*side by side*/, 2 /*slots*/, 256 /*held*/, false /*differentiates*/,
      false /*widens*/>;
  static_assert(shared_bias_bytes<Tile, bf16, Tile::row_value_width>() <= 217544);
  attend_sharing<bf16, 16 /*groups*/, 32 /*loading*/,
      112 /*working*/>(Tile(), swizzled_memory(), scores, 4ll, sharing, MappedHeads{q_map, 0ll, 1},
      MappedHeads{k_map, 0ll, 1}, MappedHeads{v_map, 0ll, 1}, MappedHeads{bias_map, 0ll, 1}, o_rows,
      lse_rows);
}
