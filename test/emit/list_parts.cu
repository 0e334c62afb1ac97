// printed by kiln-translate
// kiln_step_0: #kiln.schedule<multi_tensor, vector = 4, chunks = 2, threads = 128, blocks = 10, launch = programmatic>
// kiln_step_1: #kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 128, blocks = 16, launch = programmatic>
// kiln.launch {"function":"step","inputs":[{"name":"lr","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"count","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"chunks","dtype":"i64","shape":["s0"],"strides":[1],"alignment":16},{"name":"segments","dtype":"i64","shape":["s1"],"strides":[1],"alignment":16},{"name":"chunks_1","dtype":"i64","shape":["s2"],"strides":[1],"alignment":16},{"name":"segments_1","dtype":"i64","shape":["s3"],"strides":[1],"alignment":16},{"name":"counted","dtype":"i32","shape":[1],"strides":[1],"alignment":16}],"outputs":[{"name":"norm","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"next","dtype":"f32","shape":[],"strides":[],"alignment":4}],"workspaces":[{"name":"between0","dtype":"f32","elements":1,"blocksOf":-1,"sizes":[]},{"name":"kiln_step_0_partials","dtype":"f32","elements":2,"blocksOf":0,"sizes":[]}],"kernels":[{"name":"kiln_step_0","schedule":"#kiln.schedule<multi_tensor, vector = 4, chunks = 2, threads = 128, blocks = 10, launch = programmatic>","threads":128,"sharedBytes":5120,"promisedBlocks":10,"programmatic":true,"cluster":1,"grid":"resident","rowsPerBlock":2,"blocks":10,"rows":["s0"],"arguments":[{"kind":"buffer","name":"chunks"},{"kind":"buffer","name":"segments"},{"kind":"rows","product":["s0"]},{"kind":"buffer","name":"kiln_step_0_partials"},{"kind":"buffer","name":"chunks_1"},{"kind":"buffer","name":"segments_1"},{"kind":"rows","product":["s2"]},{"kind":"buffer","name":"counted"},{"kind":"buffer","name":"norm"},{"kind":"buffer","name":"count"},{"kind":"buffer","name":"next"},{"kind":"buffer","name":"lr"},{"kind":"buffer","name":"between0"}],"family":"multi_tensor","further":[["s2"],[]]},{"name":"kiln_step_1","schedule":"#kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 128, blocks = 16, launch = programmatic>","threads":128,"sharedBytes":0,"promisedBlocks":16,"programmatic":true,"cluster":1,"grid":"oneShot","rowsPerBlock":1,"blocks":0,"rows":["s0"],"arguments":[{"kind":"blocks","kernel":1,"parts":1},{"kind":"buffer","name":"chunks"},{"kind":"buffer","name":"segments"},{"kind":"rows","product":["s0"]},{"kind":"buffer","name":"between0"},{"kind":"buffer","name":"chunks_1"},{"kind":"buffer","name":"segments_1"},{"kind":"rows","product":["s2"]}],"family":"multi_tensor","further":[["s2"]]}],"lists":{"chunk":1024,"inputs":[{"name":"p","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"g","dtype":"bf16","shape":[],"strides":[],"alignment":2},{"name":"q","dtype":"f32","shape":[],"strides":[],"alignment":4,"part":1},{"name":"h","dtype":"f32","shape":[],"strides":[],"alignment":4,"part":1}],"outputs":[{"name":"new_p","dtype":"f32","shape":[],"strides":[],"alignment":4},{"name":"new_q","dtype":"f32","shape":[],"strides":[],"alignment":4,"part":1}],"counts":true}}
#include "segment.cuh"
using namespace kiln;

KILN_KERNEL(128, 10)
kiln_step_0(const i64* chunks, const i64* segments, i64 chunk_count, float* kiln_step_0_partials,
            const i64* chunks_1, const i64* segments_1, i64 chunk_count_1, i32* counted,
            float* norm, const float* count, float* next, const float* lr, float* between0) {
  {
    using Tile = ChunkTile<1024 /*elements*/, 8 /*vector*/, 128 /*threads*/, 2 /*chunks*/,
        3 /*lists*/>;
    static_assert(segments_bytes<Tile, 64>() <= 2560);
    const Segments<Tile,
        64> all(chunks, segments, share_of_chunks(chunk_count), shared_memory() + 0);
    wait_for_predecessor();
    release_successor();
    float sum = 0.0f;
    float sum_own = 0.0f;
    // list_parts.mlir:13
    all.stream([&](auto at,
               auto piece) { return pack(piece.load(at.template list<const bf16>(1))); },
               [&](auto piece, const auto& loaded) {
      const auto& g_c = loaded.template get<0>();
#pragma unroll
      for (int i = 0; i < piece.vector; ++i) {
        const float t = float(g_c[i]);
        sum_own += t * t;
      }
    }, [&] { sum += sum_own; sum_own = 0.0f; });
    static_assert(partial_scalar_bytes<Tile>() <= 128);
    store_partial_scalar(Tile(), shared_memory() + 0, kiln_step_0_partials + block_index(), sum);
  }
  {
    block_barrier();
    using Tile = ChunkTile<1024 /*elements*/, 4 /*vector*/, 128 /*threads*/, 2 /*chunks*/,
        3 /*lists*/>;
    static_assert(segments_bytes<Tile, 64>() <= 2560);
    const Segments<Tile,
        64> all_1(chunks_1, segments_1, share_of_chunks(chunk_count_1), shared_memory() + 2560);
    float sum_1 = 0.0f;
    float sum_1_own = 0.0f;
    // list_parts.mlir:15
    all_1.stream([&](auto at,
                 auto piece) { return pack(piece.load(at.template list<const float>(1))); },
                 [&](auto piece, const auto& loaded) {
      const auto& h_c = loaded.template get<0>();
#pragma unroll
      for (int i = 0; i < piece.vector; ++i) {
        sum_1_own += h_c[i] * h_c[i];
      }
    }, [&] { sum_1 += sum_1_own; sum_1_own = 0.0f; });
    static_assert(partial_scalar_bytes<Tile>() <= 128);
    store_partial_scalar(Tile(), shared_memory() + 0,
                         kiln_step_0_partials + 1 * block_count() + block_index(), sum_1);
  }
  static_assert(is_last_block_bytes() <= 4);
  if (is_last_block(counted, shared_memory() + 0)) {
    static_assert(sum_of_partials_bytes<128>() <= 128);
    const float sum_2 = sum_of_partials<128>(kiln_step_0_partials, block_count(),
        shared_memory() + 0);
    static_assert(sum_of_partials_bytes<128>() <= 128);
    const float sum_3 = sum_of_partials<128>(kiln_step_0_partials + 1 * block_count(),
        block_count(), shared_memory() + 0);
    const float t_1 = sqrtf(sum_2 + sum_3);
    store_scalar(norm, t_1);
    const float count_0 = load_vector<1, 1>(count)[0];
    const float t_2 = count_0 + 1.0f;
    store_scalar(next, t_2);
    const float lr_0 = load_vector<1, 1>(lr)[0];
    store_scalar(between0, lr_0 / t_1 / t_2);
  }
}

KILN_KERNEL(128, 16)
kiln_step_1(i64 first_block_1, const i64* chunks, const i64* segments, i64 chunk_count,
            const float* between0, const i64* chunks_1, const i64* segments_1, i64 chunk_count_1) {
  if (block_index() < first_block_1) {
    using Tile = ChunkTile<1024 /*elements*/, 4 /*vector*/, 128 /*threads*/, 1 /*chunks*/,
        3 /*lists*/>;
    const Segment<Tile> at(chunks, segments, block_index());
    wait_for_predecessor();
    release_successor();
    const float between0_0 = load_vector<1, 1>(between0)[0];
    const float* p = at.list<const float>(0);
    const bf16* g = at.list<const bf16>(1);
    // list_parts.mlir:24
    at.each([&](auto piece) {
      const auto p_c = piece.load(p);
      const auto g_c = piece.load(g);
      Vec<float, piece.vector> new_p_c;
#pragma unroll
      for (int i = 0; i < piece.vector; ++i) {
        new_p_c[i] = p_c[i] - float(g_c[i]) * between0_0;
      }
      piece.store(at.list<float>(2), new_p_c);
    });
  }
  if (block_index() >= first_block_1) {
    using Tile = ChunkTile<1024 /*elements*/, 4 /*vector*/, 128 /*threads*/, 1 /*chunks*/,
        3 /*lists*/>;
    const Segment<Tile> at_1(chunks_1, segments_1, block_index() - first_block_1);
    wait_for_predecessor();
    release_successor();
    const float between0_0_1 = load_vector<1, 1>(between0)[0];
    const float* q = at_1.list<const float>(0);
    const float* h = at_1.list<const float>(1);
    // list_parts.mlir:27
    at_1.each([&](auto piece) {
      const auto q_c = piece.load(q);
      const auto h_c = piece.load(h);
      Vec<float, piece.vector> new_q_c;
#pragma unroll
      for (int i = 0; i < piece.vector; ++i) {
        new_q_c[i] = q_c[i] - h_c[i] * between0_0_1;
      }
      piece.store(at_1.list<float>(2), new_q_c);
    });
  }
}
