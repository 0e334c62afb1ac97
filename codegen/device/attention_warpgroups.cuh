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
  i64 inner;     // heads; 0: all
  int shared_by; // heads of queries that share one

  /// The tile from a row and a column on. `box`: rows of the map's, which a tile has once or more.
  template <class Tile, int box = Tile::rows>
  KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row, int column = 0) const {
    static_assert(Tile::rows % box == 0 && box <= 256, "boxes of a map make a tile");
    const u32 own = head / u32(shared_by);
    mbarrier_arrive_expecting(full, Tile::panels * Tile::panel_bytes);
#pragma unroll
    for (int panel = 0; panel < Tile::panels; ++panel)
#pragma unroll
      for (int first = 0; first < Tile::rows; first += box)
        load_tile(to + panel * Tile::panel_bytes + first * Tile::swizzle, map, full,
                  column + panel * Tile::columns, row + first,
                  int(inner == 0 ? own : own % u32(inner)), int(inner == 0 ? 0 : own / u32(inner)));
  }
};

/// `width` and `value_width`: of rows in shared memory, where zeros follow what is narrower
/// than 16.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages_>
struct WarpgroupTile {
  static constexpr int row_width = width_, row_value_width = value_width_;
  static constexpr int width = width_ < 16 ? 16 : width_;
  static constexpr int value_width = value_width_ < 16 ? 16 : value_width_;
  static constexpr int queries = queries_, keys = keys_, stages = stages_;
  static constexpr int groups = queries / 64, loader = 128 * groups; // its first thread
  static constexpr int wide = value_width / 8, deep = keys / 8;
  static constexpr int loaders = 1;      // threads whose arrivals make a stage of keys full
  static constexpr int readers = groups; // that say when a stage of values is free
  static_assert(queries % 64 == 0 && keys % 16 == 0, "a warpgroup has 64 queries");

  using Element = T;
  using Queries = SwizzledTile<queries, width>;
  using Keys = SwizzledTile<keys, width>;
  using Values = SwizzledTile<keys, value_width>;
};

/// Stages that tiles of keys and values pass through, aligned as swizzles need it. Each has
/// barriers for its keys and for its values: full, and free again.
template <class Tile> struct KeyRing {
  static constexpr int stage_bytes = Tile::Keys::bytes + Tile::Values::bytes;
  static constexpr int bytes = Tile::stages * stage_bytes;
  static constexpr int barriers = 4 * Tile::stages;
  char* memory;
  u64* first;

  KILN_DEVICE char* keys(int stage) const { return memory + stage * stage_bytes; }
  KILN_DEVICE char* values(int stage) const { return keys(stage) + Tile::Keys::bytes; }
  KILN_DEVICE u64* keys_full(int stage) const { return first + stage; }
  KILN_DEVICE u64* values_full(int stage) const { return first + Tile::stages + stage; }
  KILN_DEVICE u64* keys_free(int stage) const { return first + 2 * Tile::stages + stage; }
  KILN_DEVICE u64* values_free(int stage) const { return first + 3 * Tile::stages + stage; }

  KILN_DEVICE void initialize() const {
#pragma unroll
    for (int stage = 0; stage < Tile::stages; ++stage) {
      mbarrier_initialize(keys_full(stage), Tile::loaders);
      mbarrier_initialize(values_full(stage), 1);
      mbarrier_initialize(keys_free(stage), Tile::groups);
      mbarrier_initialize(values_free(stage), Tile::readers);
    }
  }
};

/// What a block keeps in shared memory: its queries and a ring, and at the end in their place what
/// it stores; barriers behind both, since memory of a barrier is nothing else's.
template <class Tile, class Out> struct WarpgroupMemory {
  static constexpr int tiles = Tile::Queries::bytes + KeyRing<Tile>::bytes;
  static constexpr int stored = 4 * Tile::groups * store_bytes<Out, Tile::row_value_width>();
  static constexpr int below = tiles > stored ? tiles : stored; // the barriers
  static constexpr int bytes = below + (1 + KeyRing<Tile>::barriers) * int(sizeof(u64));
  static_assert(below % sizeof(u64) == 0, "barriers lie at multiples of 8");
  char* memory;

  KILN_DEVICE char* queries() const { return memory; }
  KILN_DEVICE u64* queries_full() const { return reinterpret_cast<u64*>(memory + below); }
  KILN_DEVICE KeyRing<Tile> ring() const {
    return {memory + Tile::Queries::bytes, queries_full() + 1};
  }
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_by_warpgroups_bytes() {
  return WarpgroupMemory<Tile, Out>::bytes;
}

/// A stage of a ring and the parity of its phase.
template <int stages> struct StagePhase {
  int stage = 0, parity = 0;
  /// Of the tile so far behind the first.
  static KILN_DEVICE StagePhase of(int tile) { return {tile % stages, tile / stages % 2}; }
  KILN_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  KILN_DEVICE int before() const { return (stage == 0 ? stages : stage) - 1; } // this stage
};

/// Loads a tile of keys and values when its stage is free; at first that is the phase before the
/// first.
template <class Tile, class Key, class Value>
KILN_DEVICE void load_keys(const KeyRing<Tile>& ring, const StagePhase<Tile::stages>& now,
                           const Key& key, const Value& value, u32 head, int row) {
  mbarrier_wait(ring.keys_free(now.stage), now.parity ^ 1);
  key.template fetch<typename Tile::Keys>(ring.keys(now.stage), ring.keys_full(now.stage), head,
                                          row);
  mbarrier_wait(ring.values_free(now.stage), now.parity ^ 1);
  value.template fetch<typename Tile::Values>(ring.values(now.stage), ring.values_full(now.stage),
                                              head, row);
}

/// Starts c (64, Right::rows) = the products of 64 rows of a tile `Left` and the rows of `Right`;
/// `adds`: to what is in the accumulators.
template <class T, class Left, class Right, bool adds, int deep>
KILN_DEVICE void start_rows(float (&c)[deep][4], const char* left, const char* right) {
  static_assert(deep * 8 == Right::rows, "columns are the rows of the right tile");
  static_assert(Left::width == Right::width, "rows of one width");
  float(&flat)[deep * 4] = reinterpret_cast<float(&)[deep * 4]>(c);
  const auto a = k_major<Left::swizzle>(left);
  const auto b = k_major<Right::swizzle>(right);
  pin(flat);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < Left::width / 16; ++k)
    wgmma<T, Right::rows, false, false>(flat, a + Left::depth_offset(k), b + Right::depth_offset(k),
                                        adds || k > 0);
  wgmma_commit();
}
/// Starts d (64, Right::width) = the products of rounded accumulators and a tile; `accumulate`:
/// added to d.
template <class T, class Right, int wide, int steps>
KILN_DEVICE void start_accumulated(float (&d)[wide][4], u32 (&rounded)[steps][4], const char* right,
                                   bool accumulate) {
  static_assert(steps * 16 == Right::rows && wide * 8 == Right::width, "columns are rows");
  float(&flat)[wide * 4] = reinterpret_cast<float(&)[wide * 4]>(d);
  const auto b = mn_major<Right::swizzle>(right, Right::panel_bytes);
  pin(flat);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < steps; ++k)
    wgmma<T, Right::width, true>(flat, rounded[k], b + k * 16 * Right::swizzle,
                                 k > 0 || accumulate);
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

/// Nothing to begin the accumulators of scores with.
struct FromZero {
  static constexpr bool adds = false;
  template <int deep> KILN_DEVICE void begin(float (&)[deep][4], int) const {}
};

/// Warpgroups start products when they like.
struct FreeStarts {
  KILN_DEVICE void wait() const {}
  KILN_DEVICE void pass() const {}
};

/// What a warpgroup does with one head: a softmax of the scores of its 64 queries, and with it the
/// sums of values `o`, over the `tiles` tiles of keys from `first_key` on. `start.begin` gives the
/// accumulators of the scores from a key on what they begin with. `lane` has read the mask of the
/// first tile. `now`: the ring's next stage. `starts`: when products may start.
template <class Tile, bool has_bias, class Scores, class Start, class Seen,
          class Starts = FreeStarts>
KILN_DEVICE void attend_keys(float (&o)[Tile::wide][4], RunningSoftmax<has_bias>& softmax,
                             const KeyRing<Tile>& ring, StagePhase<Tile::stages>& now,
                             const char* own_queries, const Start& start, const Scores& scores,
                             LaneOfMask<Tile::keys> lane, int row, const Seen& seen, int first_key,
                             int tiles, Starts&& starts = FreeStarts()) {
  using T = typename Tile::Element;
  const bool signals = thread_index() % 128 == 0;
  float s[Tile::deep][4], slopes[Tile::deep][4], scaled[2];
  u32 p[Tile::keys / 16][4];
  StagePhase<Tile::stages> before = now;
  OpenPlaces<false, Tile::deep> places;
  const auto take = [&](int tile, const OpenKeys<Tile::keys>& open) {
    make_exponents<false>(s, slopes, scores, row, seen, first_key + tile * Tile::keys, open,
                          places);
    const bool is_scaled =
        softmax.template take<powers_slack<Scores>>(s, scores.all.factor(), scaled);
    drop(s, scores, row, first_key + tile * Tile::keys);
    return is_scaled;
  };
  if (tiles == 0)
    return;
  fetch_places(places, scores, row, first_key);
  start.begin(s, first_key);
  OpenKeys<Tile::keys> open = open_keys(scores, lane);
  lane = read_mask<Tile::keys>(scores, first_key + Tile::keys);
  mbarrier_wait(ring.keys_full(now.stage), now.parity);
  starts.wait();
  start_rows<T, typename Tile::Queries, typename Tile::Keys, Start::adds>(s, own_queries,
                                                                          ring.keys(now.stage));
  starts.pass();
  take_places(places, scores, row, first_key + Tile::keys);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
  if (signals)
    mbarrier_arrive(ring.keys_free(now.stage));
  take(0, open);
  round_probabilities<T>(p, s);
  now.advance();
#pragma unroll 1
  for (int tile = 1; tile < tiles; ++tile) {
    start.begin(s, first_key + tile * Tile::keys);
    open = open_keys(scores, lane);
    lane = read_mask<Tile::keys>(scores, first_key + (tile + 1) * Tile::keys);
    mbarrier_wait(ring.keys_full(now.stage), now.parity);
    starts.wait();
    start_rows<T, typename Tile::Queries, typename Tile::Keys, Start::adds>(s, own_queries,
                                                                            ring.keys(now.stage));
    mbarrier_wait(ring.values_full(before.stage), before.parity);
    start_accumulated<T, typename Tile::Values>(o, p, ring.values(before.stage), tile > 1);
    starts.pass();
    take_places(places, scores, row, first_key + (tile + 1) * Tile::keys);
    wgmma_wait<1>();
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
    if (signals)
      mbarrier_arrive(ring.keys_free(now.stage));
    const bool is_scaled = take(tile, open);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(o));
    if (signals)
      mbarrier_arrive(ring.values_free(before.stage));
    round_probabilities<T>(p, s);
    if (is_scaled)
      scale_rows(o, scaled);
    now.advance();
    before.advance();
  }
  mbarrier_wait(ring.values_full(before.stage), before.parity);
  start_accumulated<T, typename Tile::Values>(o, p, ring.values(before.stage), tiles > 1);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(o));
  if (signals)
    mbarrier_arrive(ring.values_free(before.stage));
}

/// `queries`, `keys`, `values`: MappedHeads. `loading` and `working`: registers of a thread.
template <int loading, int working, class Tile, class Scores, class Query, class Key, class Value,
          class Output, class Lse>
KILN_DEVICE void attend_by_warpgroups(Tile, char* memory, const Scores& scores, const Query& query,
                                      const Key& key, const Value& value, const Output& output,
                                      const Lse& lse) {
  const WarpgroupMemory<Tile, typename Output::Element> at{memory};
  const KeyRing<Tile> ring = at.ring();
  if (thread_index() == Tile::loader) {
    mbarrier_initialize(at.queries_full(), 1);
    ring.initialize();
    mbarrier_fence();
  }
  block_barrier();
  const BlockOfRows block(scores.sight.queries, Tile::queries);
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::keys>(
      scores.sight, block.first, block.end, scores.sight.keys, keys_of);
  StagePhase<Tile::stages> now;
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() != Tile::loader)
      return;
    query.template fetch<typename Tile::Queries>(at.queries(), at.queries_full(), block.head,
                                                 block.first);
#pragma unroll 1
    for (int tile = 0; tile < tiles.count; ++tile, now.advance())
      load_keys(ring, now, key, value, block.head, tiles.first + tile * Tile::keys);
  } else {
    take_registers<working>();
    const int row = block.first + lane_row(), group = thread_index() / 128;
    RunningSoftmax<Scores::has_bias> softmax;
    float o[Tile::wide][4] = {};
    const auto of_head = scores.of(block.head);
    const auto lane = read_mask<Tile::keys>(of_head, tiles.first);
    mbarrier_wait(at.queries_full(), 0);
    attend_keys<Tile>(o, softmax, ring, now, at.queries() + group * 64 * Tile::Queries::swizzle,
                      FromZero{}, of_head, lane, row, seen_by_two(row, block.end, keys_of),
                      tiles.first, tiles.count);
    group_barrier(1, Tile::loader); // nobody reads tiles any more
    const int warp = thread_index() / 32;
    finish_rows<Tile::row_value_width>(
        own_part<typename Output::Element, Tile::row_value_width>(memory, warp), softmax, o,
        scores.factor(), block.head, block.first + 16 * warp, block.end, output, lse);
  }
}

} // namespace kiln
