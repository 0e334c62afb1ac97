// printed by kiln-translate
// kiln_attention: #kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>
// kiln.launch {"function":"attention","inputs":[{"name":"q","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"k","dtype":"bf16","shape":["s0",8,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"v","dtype":"bf16","shape":["s0",8,"s2",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"g","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"bias","dtype":"f32","shape":[8,64],"strides":[64,1],"alignment":16},{"name":"seed","dtype":"i64","shape":[],"strides":[],"alignment":8},{"name":"offset","dtype":"i64","shape":[],"strides":[],"alignment":8}],"outputs":[{"name":"o","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"y","dtype":"bf16","shape":["s0",8,"s1",64],"strides":[-1,-1,64,1],"alignment":16},{"name":"lse","dtype":"f32","shape":["s0",8,"s1"],"strides":[-1,-1,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_attention","schedule":"#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>","threads":128,"sharedBytes":46080,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s1"],"tile":64},{"product":["s0",8,1],"tile":1}]],"arguments":[{"kind":"size","product":["s1"]},{"kind":"size","product":["s2"]},{"kind":"size","product":[64,"s1"]},{"kind":"buffer","name":"q"},{"kind":"size","product":[64,"s2"]},{"kind":"buffer","name":"k"},{"kind":"buffer","name":"v"},{"kind":"buffer","name":"o"},{"kind":"buffer","name":"seed"},{"kind":"buffer","name":"offset"},{"kind":"buffer","name":"g"},{"kind":"buffer","name":"bias"},{"kind":"buffer","name":"y"},{"kind":"size","product":[1,"s1"]},{"kind":"buffer","name":"lse"}],"family":"attention","multiplyAdds":["s0",8,"s1","s2",128]}]}
#include "attention.cuh"
using namespace kiln;

KILN_KERNEL(128, 1)
kiln_attention(i64 query_count, i64 key_count, i64 step_d1_64, const bf16* q, i64 step_d2_64,
               const bf16* k, const bf16* v, bf16* o, const i64* seed, const i64* offset,
               const bf16* g, const float* bias, bf16* y, i64 step_d1_1, float* lse) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_1{{0}, {1}};
  const Sight<OneSequence> sight{query_count, key_count, Causal::none, -1 /*left*/, -1 /*right*/,
      {}};
  const NoDropout dropout{};
  const auto scores = make_scores(sight, 1.250000000e-01f /*scale*/, 0.0e+00f /*softcap*/,
      NoTensor{}, NoTensor{}, dropout, rows_1);
  const RowMap<1> rows_q{{0}, {step_d1_64}};
  const auto q_rows = head_rows<8>(q, rows_q, 64ll);
  const RowMap<1> rows_k{{0}, {step_d2_64}};
  const auto k_rows = head_rows<8>(k, rows_k, 64ll);
  const auto v_rows = head_rows<8>(v, rows_k, 64ll);
  const auto o_rows = head_rows<8>(o, rows_q, 64ll);
  const auto random = random_heads<i32, 16 /*bits*/,
      true /*is even*/>(rows_q, 64ll, u64(load_global<i64>(seed)), u64(load_global<i64>(offset)));
  const auto g_rows = head_rows<8>(g, rows_q, 64ll);
  const RowMap<2> rows_0_64{{0, 8}, {0, 64}};
  const auto bias_rows = head_rows<4>(bias, rows_0_64, 0ll);
  const auto y_rows = head_rows<8>(y, rows_q, 64ll);
  // attention_epilogue.mlir:16
  const auto y_1 = computed_rows(y_rows, [=](auto o_1, u32 head, int row, int column) {
    constexpr int count = count_of<decltype(o_1)>;
    const auto random_c = neighbours<count>(random, head, row, column);
    const auto g_rows_c = neighbours<count>(g_rows, head, row, column);
    const auto bias_rows_c = neighbours<count>(bias_rows, head, row, column);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      o_1[i] = random_c[i] >= -1717960704 ? float(bf16(o_1[i])) *
          fast_reciprocal(fast_exp(-(float(g_rows_c[i]) + bias_rows_c[i])) + 1.0f) * 1.11111116f :
          0.0f;
    }
    return o_1;
  });
  const auto results = two_results(o_rows, y_1);
  const RowMap<1> rows_lse{{0}, {step_d1_1}};
  const auto lse_rows = head_rows<1>(lse, rows_lse, 1ll);
  // attention_epilogue.mlir:8
  using Tile = AttentionTile<bf16, 64 /*width*/, 64 /*value width*/, 64 /*queries*/, 64 /*keys*/,
      2 /*stages*/>;
  static_assert(attend_bytes<Tile, bf16>() <= 46080);
  attend(Tile(), shared_memory() + 0, scores, q_rows, k_rows, v_rows, results, lse_rows);
}
