// printed by kiln-translate
// kiln_gradients: #kiln.schedule<attention, queries = 128, keys = 128, stages = 2, blocks = 1, launch = programmatic, products = warpgroups>
// kiln.launch {"function":"gradients","inputs":[{"name":"do","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"delta","dtype":"f32","shape":["s0",8,"s1"],"strides":[-1,-1,1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0",8,"s1"],"strides":[-1,-1,1],"alignment":16,"lowest":4.0},{"name":"q","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"k","dtype":"bf16","shape":["s0",2,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"v","dtype":"bf16","shape":["s0",2,"s2",64],"strides":[-1,-1,64,1],"alignment":16}],"outputs":[{"name":"dq","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"dk","dtype":"bf16","shape":["s0",2,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"dv","dtype":"bf16","shape":["s0",2,"s2",64],"strides":[-1,-1,64,1],"alignment":16}],"workspaces":[{"name":"kiln_gradients_numbers","dtype":"f32","elements":256,"blocksOf":0,"sizes":[]},{"name":"kiln_gradients_turns","dtype":"i32","elements":1,"blocksOf":0,"sizes":[]},{"name":"kiln_gradients_sums","dtype":"f32","elements":8192,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_gradients_begin","schedule":"","threads":128,"sharedBytes":0,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s1"],"tile":128},{"product":["s0",2,4],"tile":1}]],"arguments":[{"kind":"size","product":[1,"s1"]},{"kind":"buffer","name":"lse"},{"kind":"buffer","name":"delta"},{"kind":"size","product":["s1"]},{"kind":"buffer","name":"kiln_gradients_numbers"},{"kind":"buffer","name":"kiln_gradients_turns"}],"family":"attention","multiplyAdds":["s0",8,"s1","s2",256]},{"name":"kiln_gradients","schedule":"#kiln.schedule<attention, queries = 128, keys = 128, stages = 2, blocks = 1, launch = programmatic, products = warpgroups>","threads":384,"sharedBytes":231536,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s2"],"tile":128},{"product":["s0",2],"tile":1}]],"arguments":[{"kind":"tensorMap","name":"q","map":0},{"kind":"tensorMap","name":"k","map":1},{"kind":"tensorMap","name":"v","map":2},{"kind":"tensorMap","name":"do","map":3},{"kind":"size","product":["s1"]},{"kind":"size","product":["s2"]},{"kind":"size","product":[64,"s2"]},{"kind":"buffer","name":"dk"},{"kind":"buffer","name":"dv"},{"kind":"size","product":["s0",2]},{"kind":"buffer","name":"kiln_gradients_numbers"},{"kind":"buffer","name":"kiln_gradients_sums"},{"kind":"buffer","name":"kiln_gradients_turns"}],"family":"attention","tensorMaps":[{"dtype":"bf16","swizzle":128,"promotion":0,"dimensions":[{"size":[64],"stride":[],"box":64},{"size":["s1"],"stride":[64],"box":128},{"size":["s0",8],"stride":[64,"s1"],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":128,"promotion":0,"dimensions":[{"size":[64],"stride":[],"box":64},{"size":["s2"],"stride":[64],"box":128},{"size":["s0",2],"stride":[64,"s2"],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":128,"promotion":0,"dimensions":[{"size":[64],"stride":[],"box":64},{"size":["s2"],"stride":[64],"box":128},{"size":["s0",2],"stride":[64,"s2"],"box":1},{"size":[1],"stride":[8],"box":1}]},{"dtype":"bf16","swizzle":128,"promotion":0,"dimensions":[{"size":[64],"stride":[],"box":64},{"size":["s1"],"stride":[64],"box":128},{"size":["s0",8],"stride":[64,"s1"],"box":1},{"size":[1],"stride":[8],"box":1}]}],"roles":[{"warps":8,"registers":240},{"warps":4,"registers":24}]},{"name":"kiln_gradients_finish","schedule":"","threads":256,"sharedBytes":18432,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s1"],"tile":128},{"product":["s0",2,4],"tile":1}]],"arguments":[{"kind":"size","product":[64,"s1"]},{"kind":"buffer","name":"dq"},{"kind":"buffer","name":"kiln_gradients_sums"},{"kind":"size","product":["s1"]},{"kind":"size","product":["s2"]}],"family":"attention"}]}
#include "attention_turns.cuh"
using namespace kiln;

KILN_KERNEL(128, 1)
kiln_gradients_begin(i64 step_d1_1, const float* lse, const float* delta, i64 query_count,
                     float* kiln_gradients_numbers, i32* kiln_gradients_turns) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_lse{{0}, {step_d1_1}};
  const auto lse_rows = head_rows<1>(lse, rows_lse, 1ll);
  const auto delta_rows = head_rows<1>(delta, rows_lse, 1ll);
  // attention_turns.mlir:8
  begin_turns<128 /*queries of a turn*/,
      128 /*tile*/>(lse_rows, delta_rows, query_count, kiln_gradients_numbers,
      kiln_gradients_turns);
}

KILN_KERNEL(384, 1)
kiln_gradients(KILN_TENSOR_MAP q_map, KILN_TENSOR_MAP k_map, KILN_TENSOR_MAP v_map,
               KILN_TENSOR_MAP do_map, i64 query_count, i64 key_count, i64 step_d2_64, bf16* dk,
               bf16* dv, i64 head_count, const float* kiln_gradients_numbers,
               float* kiln_gradients_sums, i32* kiln_gradients_turns) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_1{{0}, {1}};
  const Sight<OneSequence> sight{query_count, key_count, Causal::last, -1 /*left*/, -1 /*right*/,
      {}};
  const NoDropout dropout{};
  const auto scores = make_scores(sight, 1.250000000e-01f /*scale*/, 0.0e+00f /*softcap*/,
      NoTensor{}, NoTensor{}, dropout, rows_1);
  const RowMap<1> rows_dk{{0}, {step_d2_64}};
  const auto dk_rows = head_rows<8>(dk, rows_dk, 64ll);
  const auto dv_rows = head_rows<8>(dv, rows_dk, 64ll);
  // attention_turns.mlir:8
  using Tile = TurnsTile<bf16, 64 /*width*/, 64 /*value width*/, 128 /*queries*/, 128 /*keys*/,
      2 /*stages*/>;
  static_assert(differentiate_in_turns_bytes<Tile, bf16, bf16>() <= 231528);
  differentiate_in_turns<24 /*loading*/,
      240 /*working*/>(Tile(), swizzled_memory(), scores, head_count, 4 /*shared by*/,
      kiln_gradients_numbers, kiln_gradients_sums, kiln_gradients_turns, MappedHeads{q_map, 0ll, 1},
      MappedHeads{k_map, 0ll, 4}, MappedHeads{v_map, 0ll, 4}, MappedHeads{do_map, 0ll, 1}, dk_rows,
      dv_rows);
}

KILN_KERNEL(256, 1)
kiln_gradients_finish(i64 step_d1_64, bf16* dq, const float* kiln_gradients_sums, i64 query_count,
                      i64 key_count) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_dq{{0}, {step_d1_64}};
  const auto dq_rows = head_rows<8>(dq, rows_dq, 64ll);
  // attention_turns.mlir:8
  static_assert(8 * store_bytes<bf16, 64>() <= 18432);
  finish_turns<128 /*queries of a turn*/,
      64 /*width*/>(shared_memory() + 0, kiln_gradients_sums, 1.250000000e-01f /*scale*/,
      query_count, key_count, dq_rows);
}
