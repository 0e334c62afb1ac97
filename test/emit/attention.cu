// printed by kiln-translate
// kiln_attention: #kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>
// kiln.launch {"function":"attention","inputs":[{"name":"q","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"k","dtype":"bf16","shape":["s0",4,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"v","dtype":"bf16","shape":["s0",4,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"bias","dtype":"f32","shape":[1,8,"s1","s2"],"strides":[-1,-1,-1,1],"alignment":16},{"name":"mask","dtype":"i1","shape":["s0",1,1,"s2"],"strides":[-1,-1,-1,1],"alignment":16}],"outputs":[{"name":"o","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0",8,"s1"],"strides":[-1,-1,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_attention","schedule":"#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>","threads":128,"sharedBytes":46080,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s1"],"tile":64},{"product":["s0",4,2],"tile":1}]],"arguments":[{"kind":"size","product":["s1"]},{"kind":"size","product":["s2"]},{"kind":"size","product":[1,"s1","s2"]},{"kind":"buffer","name":"bias"},{"kind":"size","product":[1,"s2"]},{"kind":"buffer","name":"mask"},{"kind":"size","product":[64,"s1"]},{"kind":"buffer","name":"q"},{"kind":"size","product":[64,"s2"]},{"kind":"buffer","name":"k"},{"kind":"buffer","name":"v"},{"kind":"buffer","name":"o"},{"kind":"size","product":[1,"s1"]},{"kind":"buffer","name":"lse"}],"family":"attention","multiplyAdds":["s0",8,"s1","s2",128]}]}
#include "attention.cuh"
using namespace kiln;

KILN_KERNEL(128, 1)
kiln_attention(i64 query_count, i64 key_count, i64 step_d1_d2_1, const float* bias, i64 step_d2_1,
               const u8* mask, i64 step_d1_64, const bf16* q, i64 step_d2_64, const bf16* k,
               const bf16* v, bf16* o, i64 step_d1_1, float* lse) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_1{{0}, {1}};
  const RowMap<2> rows_0_bias{{0, 8}, {0, step_d1_d2_1}};
  const auto bias_rows = head_rows<1>(bias, rows_0_bias, step_d2_1);
  const RowMap<2> rows_mask_0{{0, 8}, {step_d2_1, 0}};
  const auto mask_rows = head_rows<1>(mask, rows_mask_0, 0ll);
  const Sight<OneSequence> sight{query_count, key_count, Causal::last, 128 /*left*/, -1 /*right*/,
      {}};
  const NoDropout dropout{};
  const auto scores = make_scores(sight, 1.250000000e-01f /*scale*/, 0.0e+00f /*softcap*/,
      bias_rows, mask_rows, dropout, rows_1);
  const RowMap<1> rows_q{{0}, {step_d1_64}};
  const auto q_rows = head_rows<8>(q, rows_q, 64ll);
  const RowMap<2> rows_k_0{{0, 2}, {step_d2_64, 0}};
  const auto k_rows = head_rows<8>(k, rows_k_0, 64ll);
  const auto v_rows = head_rows<8>(v, rows_k_0, 64ll);
  const auto o_rows = head_rows<8>(o, rows_q, 64ll);
  const RowMap<1> rows_lse{{0}, {step_d1_1}};
  const auto lse_rows = head_rows<1>(lse, rows_lse, 1ll);
  // attention.mlir:8
  using Tile = AttentionTile<bf16, 64 /*width*/, 64 /*value width*/, 64 /*queries*/, 64 /*keys*/,
      2 /*stages*/>;
  static_assert(attend_bytes<Tile, bf16>() <= 46080);
  attend(Tile(), shared_memory() + 0, scores, q_rows, k_rows, v_rows, o_rows, lse_rows);
}
