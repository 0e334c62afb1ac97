// printed by kiln-translate
// kiln_gradient: #kiln.schedule<attention, queries = 32, keys = 64, stages = 2, blocks = 1, launch = programmatic>
// kiln.launch {"function":"gradient","inputs":[{"name":"do","dtype":"f16","shape":[8,"s0",64],"strides":[-1,64,1],"alignment":16},{"name":"delta","dtype":"f32","shape":[8,"s0"],"strides":[-1,1],"alignment":16},{"name":"lse","dtype":"f32","shape":[8,"s0"],"strides":[-1,1],"alignment":16,"lowest":4.0},{"name":"q","dtype":"f16","shape":[8,"s0",64],"strides":[-1,64,1],"alignment":16},{"name":"k","dtype":"f16","shape":[2,"s1",64],"strides":[-1,64,1],"alignment":16},{"name":"v","dtype":"f16","shape":[2,"s1",64],"strides":[-1,64,1],"alignment":16},{"name":"qs","dtype":"i32","shape":["s2"],"strides":[1],"alignment":16,"ascendsTo":"s0"},{"name":"ks","dtype":"i32","shape":["s2"],"strides":[1],"alignment":16,"ascendsTo":"s1"},{"name":"seed","dtype":"i64","shape":[],"strides":[],"alignment":8},{"name":"offset","dtype":"i64","shape":[],"strides":[],"alignment":8}],"outputs":[{"name":"dk","dtype":"f16","shape":[2,"s1",64],"strides":[-1,64,1],"alignment":16},{"name":"dv","dtype":"f16","shape":[2,"s1",64],"strides":[-1,64,1],"alignment":16}],"workspaces":[],"kernels":[{"name":"kiln_gradient","schedule":"#kiln.schedule<attention, queries = 32, keys = 64, stages = 2, blocks = 1, launch = programmatic>","threads":128,"sharedBytes":37376,"promisedBlocks":1,"programmatic":true,"cluster":1,"grid":"tiles","blocks":0,"tiles":[[{"product":["s1"],"tile":64},{"product":[2],"tile":1}]],"arguments":[{"kind":"size","product":["s0"]},{"kind":"size","product":["s1"]},{"kind":"buffer","name":"qs"},{"kind":"buffer","name":"ks"},{"kind":"size","product":["s2"]},{"kind":"buffer","name":"seed"},{"kind":"buffer","name":"offset"},{"kind":"size","product":[64,"s0"]},{"kind":"buffer","name":"q"},{"kind":"size","product":[64,"s1"]},{"kind":"buffer","name":"k"},{"kind":"buffer","name":"v"},{"kind":"buffer","name":"do"},{"kind":"size","product":[1,"s0"]},{"kind":"buffer","name":"lse"},{"kind":"buffer","name":"delta"},{"kind":"buffer","name":"dk"},{"kind":"buffer","name":"dv"}],"family":"attention","multiplyAdds":[8,"s0","s1",256]}]}
#include "attention_backward.cuh"
using namespace kiln;

KILN_KERNEL(128, 1)
kiln_gradient(i64 query_count, i64 key_count, const i32* qs, const i32* ks, i64 start_count,
              const i64* seed, const i64* offset, i64 step_d0_64, const f16* q, i64 step_d1_64,
              const f16* k, const f16* v, const f16* do_1, i64 step_d0_1, const float* lse,
              const float* delta, f16* dk, f16* dv) {
  wait_for_predecessor();
  release_successor();
  const RowMap<1> rows_1{{0}, {1}};
  const Sight<PackedSequences> sight{query_count, key_count, Causal::first, -1 /*left*/,
      -1 /*right*/, {qs, ks, start_count}};
  const Dropout<16 /*bits*/> dropout{u64(load_global<i64>(seed)), u64(load_global<i64>(offset)),
      -1717960704 /*least*/, 1.111111160e+00f /*scale*/};
  const auto scores = make_scores(sight, 1.250000000e-01f /*scale*/, 0.0e+00f /*softcap*/,
      NoTensor{}, NoTensor{}, dropout, rows_1);
  const RowMap<1> rows_q{{0}, {step_d0_64}};
  const auto q_rows = head_rows<8>(q, rows_q, 64ll);
  const RowMap<2> rows_k_0{{0, 4}, {step_d1_64, 0}};
  const auto k_rows = head_rows<8>(k, rows_k_0, 64ll);
  const auto v_rows = head_rows<8>(v, rows_k_0, 64ll);
  const auto do_1_rows = head_rows<8>(do_1, rows_q, 64ll);
  const RowMap<1> rows_lse{{0}, {step_d0_1}};
  const auto lse_rows = head_rows<1>(lse, rows_lse, 1ll);
  const auto delta_rows = head_rows<1>(delta, rows_lse, 1ll);
  const RowMap<1> rows_dk{{0}, {step_d1_64}};
  const auto dk_rows = head_rows<8>(dk, rows_dk, 64ll);
  const auto dv_rows = head_rows<8>(dv, rows_dk, 64ll);
  // attention_key_gradient.mlir:8
  using Tile = KeyGradientTile<f16, 64 /*width*/, 64 /*value width*/, 32 /*queries*/, 64 /*keys*/,
      2 /*stages*/, true /*of keys*/, true /*of values*/>;
  static_assert(key_gradient_bytes<Tile, f16, f16>() <= 37376);
  differentiate_keys(Tile(), shared_memory() + 0, scores, 4 /*shared by*/, q_rows, k_rows, v_rows,
                     do_1_rows, lse_rows, delta_rows, dk_rows, dv_rows);
}
