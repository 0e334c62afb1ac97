// printed by kiln-translate
// kiln_adamw_0: #kiln.schedule<multi_tensor, vector = 8, chunks = 2, threads = 128, blocks = 12, launch = programmatic>
// kiln_adamw_1: #kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 128, blocks = 9, launch = programmatic>
// kiln.launch {"function":"adamw","inputs":[{"name":"lr","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"step","dtype":"f32","shape":[],"strides":[],"alignment":4,"lowest":0.0},{"name":"max_norm","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"chunks","dtype":"i64","shape":["s0"],"strides":[1],"alignment":16},{"name":"segments","dtype":"i64","shape":["s1"],"strides":[1],"alignment":16},{"name":"counted","dtype":"i32","shape":[1],"strides":[1],"alignment":16}],"outputs":[{"name":"norm","dtype":"f32","shape":[],"strides":[],"alignment":4}],"workspaces":[{"name":"between0","dtype":"f32","elements":1,"blocksOf":-1,"sizes":[]},{"name":"kiln_adamw_0_partials","dtype":"f32","elements":1,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_adamw_0","schedule":"#kiln.schedule<multi_tensor, vector = 8, chunks = 2, threads = 128, blocks = 12, launch = programmatic>","threads":128,"sharedBytes":5120,"promisedBlocks":12,"programmatic":true,"cluster":1,"grid":"resident","rowsPerBlock":2,"blocks":12,"rows":["s0"],"arguments":[{"kind":"buffer","name":"chunks"},{"kind":"buffer","name":"segments"},{"kind":"rows","product":["s0"]},{"kind":"buffer","name":"kiln_adamw_0_partials"},{"kind":"buffer","name":"counted"},{"kind":"buffer","name":"norm"},{"kind":"buffer","name":"max_norm"},{"kind":"buffer","name":"between0"}],"family":"multi_tensor","further":[[]]},{"name":"kiln_adamw_1","schedule":"#kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 128, blocks = 9, launch = programmatic>","threads":128,"sharedBytes":0,"promisedBlocks":9,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":1,"blocks":0,"rows":["s0"],"arguments":[{"kind":"buffer","name":"chunks"},{"kind":"buffer","name":"segments"},{"kind":"rows","product":["s0"]},{"kind":"buffer","name":"lr"},{"kind":"buffer","name":"step"},{"kind":"buffer","name":"between0"}],"family":"multi_tensor"}],"lists":{"chunk":1024,"inputs":[{"name":"p","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"g","dtype":"bf16","shape":[],"strides":[],"alignment":2},{"name":"m","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"v","dtype":"f32","shape":[],"strides":[],"alignment":4,"lowest":0.0}],"outputs":[{"name":"new_p","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"new_m","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"new_v","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"copy","dtype":"bf16","shape":[],"strides":[],"alignment":2}],"counts":true}}
#include "segment.cuh"
using namespace kiln;

KILN_KERNEL(128, 12)
kiln_adamw_0(const i64* chunks, const i64* segments, i64 chunk_count, float* kiln_adamw_0_partials,
             i32* counted, float* norm, const float* max_norm, float* between0) {
  using Tile = ChunkTile<1024 /*elements*/, 8 /*vector*/, 128 /*threads*/, 2 /*chunks*/,
      8 /*lists*/>;
  static_assert(segments_bytes<Tile, 64>() <= 5120);
  const Segments<Tile, 64> all(chunks, segments, share_of_chunks(chunk_count), shared_memory() + 0);
  wait_for_predecessor();
  release_successor();
  float sum = 0.0f;
  float sum_own = 0.0f;
  // adamw.mlir:10
  all.stream([&](auto at, auto piece) { return pack(piece.load(at.template list<const bf16>(1))); },
             [&](auto piece, const auto& loaded) {
    const auto& g_c = loaded.template get<0>();
#pragma unroll
    for (int i = 0; i < piece.vector; ++i) {
      const float t = float(g_c[i]);
      sum_own += t * t;
    }
  }, [&] { sum += sum_own; sum_own = 0.0f; });
  static_assert(partial_scalar_bytes<Tile>() <= 128);
  store_partial_scalar(Tile(), shared_memory() + 0, kiln_adamw_0_partials + block_index(), sum);
  static_assert(is_last_block_bytes() <= 4);
  if (is_last_block(counted, shared_memory() + 0)) {
    static_assert(sum_of_partials_bytes<128>() <= 128);
    const float sum_1 = sum_of_partials<128>(kiln_adamw_0_partials, block_count(),
        shared_memory() + 0);
    const float t_1 = sqrtf(sum_1);
    store_scalar(norm, t_1);
    const float max_norm_0 = load_vector<1, 1>(max_norm)[0];
    store_scalar(between0, minimum(max_norm_0 / (t_1 + 9.99999997e-07f), 1.0f));
  }
}

KILN_KERNEL(128, 9)
kiln_adamw_1(const i64* chunks, const i64* segments, i64 chunk_count, const float* lr,
             const float* step, const float* between0) {
  using Tile = ChunkTile<1024 /*elements*/, 4 /*vector*/, 128 /*threads*/, 1 /*chunks*/,
      8 /*lists*/>;
  const Segment<Tile> at(chunks, segments, block_index());
  wait_for_predecessor();
  release_successor();
  const float lr_0 = load_vector<1, 1>(lr)[0];
  const float step_0 = load_vector<1, 1>(step)[0];
  const float shared = -(lr_0 / -expm1f(step_0 * -0.105360515f));
  const float between0_0 = load_vector<1, 1>(between0)[0];
  const float shared_1 = inverse_sqrt(-expm1f(step_0 * -0.00100050028f));
  const float shared_2 = lr_0 * -0.100000001f + 1.0f;
  const float* p = at.list<const float>(0);
  const bf16* g = at.list<const bf16>(1);
  const float* m = at.list<const float>(2);
  const float* v = at.list<const float>(3);
  // adamw.mlir:17
  at.each([&](auto piece) {
    const auto p_c = piece.load(p);
    const auto g_c = piece.load(g);
    const auto m_c = piece.load(m);
    const auto v_c = piece.load(v);
    Vec<float, piece.vector> new_p_c;
    Vec<float, piece.vector> new_m_c;
    Vec<float, piece.vector> new_v_c;
    Vec<float, piece.vector> copy_c;
#pragma unroll
    for (int i = 0; i < piece.vector; ++i) {
      const float t = float(g_c[i]) * between0_0;
      const float new_exp_avg = fmaf(t - m_c[i], 0.100000001f, m_c[i]);
      const float new_exp_avg_sq = fmaf(t * 0.00100000005f, t, v_c[i] * 0.999000013f);
      const float new_param = fmaf(shared,
          new_exp_avg / fmaf(sqrtf(new_exp_avg_sq), shared_1, 9.99999994e-09f), p_c[i] * shared_2);
      new_p_c[i] = new_param;
      new_m_c[i] = new_exp_avg;
      new_v_c[i] = new_exp_avg_sq;
      copy_c[i] = new_param;
    }
    piece.store(at.list<float>(4), new_p_c);
    piece.store(at.list<float>(5), new_m_c);
    piece.store(at.list<float>(6), new_v_c);
    piece.store(at.list<bf16>(7), copy_c);
  });
}
