// Attention by products of warpgroups (wgmma.cuh), for sm_90a: queries, keys and values come as
// tensor maps bring them, one warpgroup loads, and the others have 64 queries each. The products of
// a tile of keys run beside those of the values before it (Shah et al., FlashAttention-3, 2024).
#pragma once

#include "attention.cuh"
#include "tensor_copy.cuh"
#include "wgmma.cuh"

namespace kiln {

/// A tile of rows of 2-byte elements as a tensor map with a swizzle brings it: in panels, each of
/// rows of `swizzle` bytes.
template <int rows_, int width_> struct SwizzledTile {
  static constexpr int rows = rows_, width = width_;
  static constexpr int swizzle = width % 64 == 0 ? 128 : 2 * width;
  static constexpr int columns = swizzle / 2; // of a panel
  static constexpr int panels = width / columns;
  static constexpr int panel_bytes = rows * swizzle;
  static constexpr int bytes = panels * panel_bytes;
  static_assert(width % 64 == 0 || width == 32 || width == 16, "a panel is as wide as a swizzle");
  static_assert(panel_bytes % 1024 == 0, "swizzles repeat within panels");

  /// What begins `step` products of depth 16 further on.
  static KILN_DEVICE int depth_offset(int step) {
    return step * 32 / swizzle * panel_bytes + step * 32 % swizzle;
  }
};

/// Where heads lie in a tensor map of (width, rows, inner heads, outer heads).
struct MappedHeads {
  const TensorMap& map;
  i64 inner;     // heads
  int shared_by; // heads of queries that share one

  template <class Tile> KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row) const {
    const u32 own = head / u32(shared_by);
    mbarrier_arrive_expecting(full, Tile::bytes);
#pragma unroll
    for (int panel = 0; panel < Tile::panels; ++panel)
      load_tile(to + panel * Tile::panel_bytes, map, full, panel * Tile::columns, row,
                int(own % u32(inner)), int(own / u32(inner)));
  }
};

template <class T, int width_, int value_width_, int queries_, int keys_, int stages_>
struct WarpgroupTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_, stages = stages_;
  static constexpr int groups = queries / 64, loader = 128 * groups; // its first thread
  static constexpr int wide = value_width / 8, deep = keys / 8;
  static_assert(queries % 64 == 0 && keys % 16 == 0, "a warpgroup has 64 queries");

  using Element = T;
  using Queries = SwizzledTile<queries, width>;
  using Keys = SwizzledTile<keys, width>;
  using Values = SwizzledTile<keys, value_width>;
};

/// What blocks keep in shared memory, aligned as swizzles need it.
template <class Tile> struct WarpgroupMemory {
  static constexpr int stage_bytes = Tile::Keys::bytes + Tile::Values::bytes;
  static constexpr int tiles = Tile::Queries::bytes + Tile::stages * stage_bytes;
  static constexpr int bytes = tiles + (1 + 4 * Tile::stages) * int(sizeof(u64));
  char* memory;

  KILN_DEVICE char* queries() const { return memory; }
  KILN_DEVICE char* keys(int stage) const {
    return memory + Tile::Queries::bytes + stage * stage_bytes;
  }
  KILN_DEVICE char* values(int stage) const { return keys(stage) + Tile::Keys::bytes; }
  KILN_DEVICE u64* barrier(int which) const {
    return reinterpret_cast<u64*>(memory + tiles) + which;
  }
  KILN_DEVICE u64* queries_full() const { return barrier(0); }
  KILN_DEVICE u64* keys_full(int stage) const { return barrier(1 + stage); }
  KILN_DEVICE u64* values_full(int stage) const { return barrier(1 + Tile::stages + stage); }
  KILN_DEVICE u64* keys_free(int stage) const { return barrier(1 + 2 * Tile::stages + stage); }
  KILN_DEVICE u64* values_free(int stage) const { return barrier(1 + 3 * Tile::stages + stage); }
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_by_warpgroups_bytes() {
  constexpr int stored = 4 * Tile::groups * store_bytes<Out, Tile::value_width>();
  return WarpgroupMemory<Tile>::bytes > stored ? WarpgroupMemory<Tile>::bytes : stored;
}

/// A stage of a ring and the parity of its phase.
template <int stages> struct StagePhase {
  int stage = 0, parity = 0;
  KILN_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Tile, class Query, class Key, class Value>
KILN_DEVICE void load_tiles(const WarpgroupMemory<Tile>& at, const Query& query, const Key& key,
                            const Value& value, u32 head, int first_query, int first_key,
                            int tiles) {
  query.template fetch<typename Tile::Queries>(at.queries(), at.queries_full(), head, first_query);
  StagePhase<Tile::stages> now;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile, now.advance()) {
    const int row = first_key + tile * Tile::keys;
    mbarrier_wait(at.keys_free(now.stage), now.parity ^ 1); // at first, the phase before the first
    key.template fetch<typename Tile::Keys>(at.keys(now.stage), at.keys_full(now.stage), head, row);
    mbarrier_wait(at.values_free(now.stage), now.parity ^ 1);
    value.template fetch<typename Tile::Values>(at.values(now.stage), at.values_full(now.stage),
                                                head, row);
  }
}

/// Starts the products of the warpgroup's queries and a tile of keys.
template <class Tile>
KILN_DEVICE void start_scores(float (&s)[Tile::deep][4], const WarpgroupMemory<Tile>& at, int group,
                              int stage) {
  float(&flat)[Tile::keys / 2] = reinterpret_cast<float(&)[Tile::keys / 2]>(s);
  const auto queries =
      k_major<Tile::Queries::swizzle>(at.queries() + group * 64 * Tile::Queries::swizzle);
  const auto keys = k_major<Tile::Keys::swizzle>(at.keys(stage));
  pin(flat);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < Tile::width / 16; ++k)
    wgmma<typename Tile::Element, Tile::keys, false, false>(
        flat, queries + Tile::Queries::depth_offset(k), keys + Tile::Keys::depth_offset(k), k > 0);
  wgmma_commit();
}
/// Starts the products of rounded probabilities and a tile of values.
template <class Tile>
KILN_DEVICE void start_sums(float (&o)[Tile::wide][4], u32 (&p)[Tile::keys / 16][4],
                            const WarpgroupMemory<Tile>& at, int stage, bool accumulate) {
  float(&flat)[Tile::value_width / 2] = reinterpret_cast<float(&)[Tile::value_width / 2]>(o);
  const auto values = mn_major<Tile::Values::swizzle>(at.values(stage), Tile::Values::panel_bytes);
  pin(flat);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < Tile::keys / 16; ++k)
    wgmma<typename Tile::Element, Tile::value_width, true>(
        flat, p[k], values + k * 16 * Tile::Values::swizzle, k > 0 || accumulate);
  wgmma_commit();
}
template <class T, int deep>
KILN_DEVICE void round_probabilities(u32 (&p)[deep / 2][4], const float (&s)[deep][4]) {
#pragma unroll
  for (int k = 0; k < deep / 2; ++k) {
    const auto a = Operands<T>::of(s, k);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      p[k][i] = a.words[i];
  }
}

template <class Tile, class Scores, class Output, class Lse>
KILN_DEVICE void attend_tiles(const WarpgroupMemory<Tile>& at, const Scores& scores, u32 head,
                              int first_query, int end, int first_key, int tiles,
                              const Output& output, const Lse& lse) {
  using T = typename Tile::Element;
  using Out = typename Output::Element;
  const int group = thread_index() / 128, row = first_query + lane_row();
  const bool signals = thread_index() % 128 == 0;
  const TwoSpans seen =
      seen_by_two(row, end, [&](int query) { return scores.sight.keys_of(query); });
  const auto of_head = scores.of(head);
  RunningSoftmax softmax;
  float o[Tile::wide][4] = {}, s[Tile::deep][4], slopes[Tile::deep][4], scaled[2];
  u32 p[Tile::keys / 16][4];
  StagePhase<Tile::stages> now, before;
  const auto take = [&](int tile) {
    make_exponents<false>(s, slopes, of_head, row, seen, first_key + tile * Tile::keys);
    softmax.take(s, scores.factor(), scaled);
    drop(s, of_head, row, first_key + tile * Tile::keys);
  };

  mbarrier_wait(at.queries_full(), 0);
  if (tiles > 0) {
    mbarrier_wait(at.keys_full(now.stage), now.parity);
    start_scores<Tile>(s, at, group, now.stage);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
    if (signals)
      mbarrier_arrive(at.keys_free(now.stage));
    take(0);
    round_probabilities<T>(p, s);
    now.advance();
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      mbarrier_wait(at.keys_full(now.stage), now.parity);
      start_scores<Tile>(s, at, group, now.stage);
      mbarrier_wait(at.values_full(before.stage), before.parity);
      start_sums<Tile>(o, p, at, before.stage, tile > 1);
      wgmma_wait<1>();
      pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
      if (signals)
        mbarrier_arrive(at.keys_free(now.stage));
      take(tile);
      wgmma_wait<0>();
      pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(o));
      if (signals)
        mbarrier_arrive(at.values_free(before.stage));
      round_probabilities<T>(p, s);
      scale_rows(o, scaled);
      now.advance();
      before.advance();
    }
    mbarrier_wait(at.values_full(before.stage), before.parity);
    start_sums<Tile>(o, p, at, before.stage, tiles > 1);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(o));
  }
  group_barrier(1, Tile::loader); // nobody reads tiles any more
  finish_rows<Tile>(at.memory, softmax, o, scores.factor(), head, first_query, end, output, lse);
}

/// `queries`, `keys`, `values`: MappedHeads. `loading` and `working`: registers of a thread.
template <int loading, int working, class Tile, class Scores, class Query, class Key, class Value,
          class Output, class Lse>
KILN_DEVICE void attend_by_warpgroups(Tile, char* memory, const Scores& scores, const Query& query,
                                      const Key& key, const Value& value, const Output& output,
                                      const Lse& lse) {
  const WarpgroupMemory<Tile> at{memory};
  if (thread_index() == Tile::loader) {
    mbarrier_initialize(at.queries_full(), 1);
#pragma unroll
    for (int stage = 0; stage < Tile::stages; ++stage) {
      mbarrier_initialize(at.keys_full(stage), 1);
      mbarrier_initialize(at.values_full(stage), 1);
      mbarrier_initialize(at.keys_free(stage), Tile::groups);
      mbarrier_initialize(at.values_free(stage), Tile::groups);
    }
    mbarrier_fence();
  }
  block_barrier();
  const BlockOfRows block(scores.sight.queries, Tile::queries);
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::keys>(
      scores.sight, block, [&](int row) { return scores.sight.keys_of(row); });
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() == Tile::loader)
      load_tiles<Tile>(at, query, key, value, block.head, block.first, tiles.first, tiles.count);
  } else {
    take_registers<working>();
    attend_tiles<Tile>(at, scores, block.head, block.first, block.end, tiles.first, tiles.count,
                       output, lse);
  }
}

} // namespace kiln
