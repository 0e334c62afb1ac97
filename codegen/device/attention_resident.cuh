// Attention by products of warpgroups (attention_warpgroups.cuh) in blocks that stay: each takes
// one tile of queries after the other, and the next one's queries, keys and values come while this
// one is finished. Where there are three warpgroups they take turns to start products, so that the
// exponentials of one run beside the products of the others (Shah et al., FlashAttention-3, 2024,
// section 3.1).
#pragma once

#include "attention_order.cuh"
#include "attention_warpgroups.cuh"

namespace kiln {

/// Warpgroups start products one after the other, each once, and again. `first`: a barrier each.
template <int groups> struct OrderedStarts {
  u64* first;
  int group, parity;

  KILN_DEVICE OrderedStarts(u64* first, int group)
      : first(first), group(group), parity(group == 0 ? 1 : 0) {}
  static KILN_DEVICE void initialize(u64* first) {
#pragma unroll
    for (int i = 0; i < groups; ++i)
      mbarrier_initialize(first + i, 1);
  }
  KILN_DEVICE void wait() {
    mbarrier_wait(first + group, parity);
    parity ^= 1;
  }
  KILN_DEVICE void pass() const {
    if (thread_index() % 128 == 0)
      mbarrier_arrive(first + (group + 1 == groups ? 0 : group + 1));
  }
};

/// What a block keeps in shared memory: two tiles of queries, the ring, what it stores, barriers,
/// and where the two tiles are.
template <class Tile, class Out> struct ResidentMemory {
  static constexpr int slots = 2;
  static constexpr int tiles = slots * Tile::Queries::bytes + KeyRing<Tile>::bytes;
  static constexpr int below = tiles + 4 * Tile::groups * store_bytes<Out, Tile::row_value_width>();
  static constexpr bool has_turns = Tile::groups > 2;
  static constexpr int barriers =
      2 * slots + KeyRing<Tile>::barriers + (has_turns ? Tile::groups : 0);
  using Place = Vec<int, 2>; // a head, or -1 behind the last, and a row
  static constexpr int bytes = below + barriers * int(sizeof(u64)) + slots * int(sizeof(Place));
  static_assert(below % sizeof(u64) == 0, "barriers lie at multiples of 8");
  char* memory;

  KILN_DEVICE char* queries(int slot) const { return memory + slot * Tile::Queries::bytes; }
  KILN_DEVICE Place* place(int slot) const {
    return reinterpret_cast<Place*>(memory + below + barriers * int(sizeof(u64))) + slot;
  }
  KILN_DEVICE char* stored() const { return memory + tiles; }
  KILN_DEVICE u64* queries_full(int slot) const {
    return reinterpret_cast<u64*>(memory + below) + slot;
  }
  KILN_DEVICE u64* queries_free(int slot) const { return queries_full(slots + slot); }
  KILN_DEVICE KeyRing<Tile> ring() const { return {queries(slots), queries_full(2 * slots)}; }
  KILN_DEVICE u64* first_start() const { return queries_full(2 * slots) + KeyRing<Tile>::barriers; }
  KILN_DEVICE auto starts() const {
    if constexpr (has_turns)
      return OrderedStarts<Tile::groups>(first_start(), uniform(thread_index() / 128));
    else
      return FreeStarts{};
  }
  KILN_DEVICE void initialize() const {
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) {
      mbarrier_initialize(queries_full(slot), 1);
      mbarrier_initialize(queries_free(slot), 4 * Tile::groups); // warps
    }
    ring().initialize();
    if constexpr (has_turns)
      OrderedStarts<Tile::groups>::initialize(first_start());
  }
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_resident_bytes() {
  return ResidentMemory<Tile, Out>::bytes;
}

/// What the rows of a thread see, of a block's: of one sequence told for its warp.
template <class Sight> KILN_DEVICE auto seen_by_warp(const Sight& sight, const BlockOfRows& of) {
  if constexpr (Sight::packed)
    return seen_by_two(of.first + lane_row(), of.end, [&](int row) { return sight.keys_of(row); });
  else
    return SeenByWarp<Sight>{sight, of.first + 16 * uniform(anew(thread_index()) / 32), of.end};
}

/// What a warpgroup takes of the tiles that its block walks over: `whole` ones, and then the first
/// half of one, or nothing more. Where rows see keys from the first on its last row sees most.
struct TilesOfGroup {
  int whole;
  bool has_half;
  KILN_DEVICE int count() const { return whole + (has_half ? 1 : 0); }
};
/// Products take keys by 16.
template <class Tile> inline constexpr bool can_halve = Tile::keys % 32 == 0;
template <class Tile, class Sight>
KILN_DEVICE TilesOfGroup tiles_of_group(const Sight& sight, const BlockOfRows& of,
                                        const SeenTiles& tiles, int group) {
  if (!sight.sees_from_first() || sight.sees_all())
    return {tiles.count, false};
  const int first = of.first + 64 * group, behind = first + 64 < of.end ? first + 64 : of.end;
  if (first >= behind)
    return {0, false};
  const int keys = uniform(sight.keys_of(behind - 1).end) - tiles.first;
  const int rest = keys % Tile::keys, whole = keys / Tile::keys;
  if (keys <= 0)
    return {0, false};
  if (can_halve<Tile> && rest <= Tile::keys / 2)
    return {whole, rest > 0};
  return {whole + (rest > 0 ? 1 : 0), false};
}

/// The first rows of a tile, as they lie in it.
template <class Whole, int rows_> struct FirstRows : Whole {
  static constexpr int rows = rows_;
};
/// attend_keys with the first half of the keys of a tile alone, which begin with `first_key`,
/// behind all others of a head.
template <class Tile, bool has_bias, class Scores, class Seen, class Starts>
KILN_DEVICE void attend_half(float (&o)[Tile::wide][4], RunningSoftmax<has_bias>& softmax,
                             const KeyRing<Tile>& ring, StagePhase<Tile::stages>& now,
                             const char* own_queries, const Scores& scores, int row,
                             const Seen& seen, int first_key, Starts& starts) {
  using T = typename Tile::Element;
  constexpr int keys = Tile::keys / 2;
  const bool signals = thread_index() % 128 == 0;
  float s[keys / 8][4], slopes[keys / 8][4], scaled[2];
  u32 p[keys / 16][4];
  OpenPlaces<false, keys / 8> places;
  fetch_places(places, scores, row, first_key);
  const auto open = open_keys(scores, read_mask<keys>(scores, first_key));
  mbarrier_wait(ring.keys_full(now.stage), now.parity);
  starts.wait();
  start_rows<T, typename Tile::Queries, FirstRows<typename Tile::Keys, keys>, false>(
      s, own_queries, ring.keys(now.stage));
  starts.pass();
  take_places(places, scores);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[keys / 2]>(s));
  if (signals)
    mbarrier_arrive(ring.keys_free(now.stage));
  make_exponents<false>(s, slopes, scores, row, seen, first_key, open, places);
  if (softmax.template take<powers_slack<Scores>>(s, scores.all.factor(), scaled))
    scale_rows(o, scaled);
  drop(s, scores, row, first_key);
  round_probabilities<T>(p, s);
  mbarrier_wait(ring.values_full(now.stage), now.parity);
  start_accumulated<T, FirstRows<typename Tile::Values, keys>>(o, p, ring.values(now.stage), true);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(o));
  if (signals)
    mbarrier_arrive(ring.values_free(now.stage));
  now.advance();
}

/// What a warpgroup does with the tiles that others see: it keeps their turns, and frees stages.
template <class Tile, class Starts>
KILN_DEVICE void pass_keys(const KeyRing<Tile>& ring, StagePhase<Tile::stages>& now, int tiles,
                           Starts& starts) {
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile, now.advance()) {
    mbarrier_wait(ring.keys_full(now.stage), now.parity);
    starts.wait();
    starts.pass();
    mbarrier_wait(ring.values_full(now.stage), now.parity);
    if (thread_index() % 128 == 0) {
      mbarrier_arrive(ring.keys_free(now.stage));
      mbarrier_arrive(ring.values_free(now.stage));
    }
  }
}

/// As attend_by_warpgroups; `heads`: all.
template <int loading, int working, class Tile, class Scores, class Query, class Key, class Value,
          class Output, class Lse>
KILN_DEVICE void attend_resident(Tile, char* memory, const Scores& scores, i64 heads,
                                 const Query& query, const Key& key, const Value& value,
                                 const Output& output, const Lse& lse) {
  using Memory = ResidentMemory<Tile, typename Output::Element>;
  const Memory at{memory};
  const KeyRing<Tile> ring = at.ring();
  if (thread_index() == Tile::loader) {
    at.initialize();
    mbarrier_fence();
  }
  block_barrier();
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const auto tiles_of = [&](const BlockOfRows& of) { // all lanes of a warp ask together
    if (of.first >= of.end)
      return SeenTiles{{0, 0}, 0, 0};
    if (!scores.sight.sees_from_first()) // known when compiled
      return seen_tiles<Tile::queries, Tile::keys>(scores.sight, of.first, of.end,
                                                   scores.sight.keys, keys_of);
    const int behind = of.first + Tile::queries < of.end ? of.first + Tile::queries : of.end;
    const int end = uniform(keys_of(behind - 1).end); // the last row sees most
    return SeenTiles{{0, end}, 0, (end + Tile::keys - 1) / Tile::keys};
  };
  u32 round = 0; // one register, where a slot and its parity would be two
  const auto slot = [&] { return int(round % Memory::slots); };
  const auto parity = [&] { return int(round / Memory::slots % 2); };
  StagePhase<Tile::stages> now;
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() >= Tile::loader + 32)
      return;
    const bool loads = thread_index() == Tile::loader;
    const auto begin = [&](int head, int first) {
      mbarrier_wait(at.queries_free(slot()), parity() ^ 1);
      store_shared(at.place(slot()), typename Memory::Place{head, first});
    };
    const auto load = [&](auto own) {
#pragma unroll 1
      for (; own.has_tile(); own.advance()) {
        const BlockOfRows of = own.tile();
        const SeenTiles tiles = tiles_of(of);
        if (!loads || of.first >= of.end)
          continue;
        begin(int(of.head), of.first);
        query.template fetch<typename Tile::Queries>(at.queries(slot()), at.queries_full(slot()),
                                                     of.head, of.first);
#pragma unroll 1
        for (int tile = 0; tile < tiles.count; ++tile, now.advance())
          load_keys(ring, now, key, value, of.head, tiles.first + tile * Tile::keys);
        ++round;
      }
    };
    if (scores.sight.causal == Causal::none)
      load(TilesInTurn<Tile::queries>(heads, scores.sight.queries));
    else
      load(TilesInPairs<Tile::queries>(heads, scores.sight.queries));
    if (loads) {
      begin(-1, 0);
      mbarrier_arrive(at.queries_full(slot()));
    }
    return;
  }
  take_registers<working>();
  const int group = uniform(thread_index() / 128);
  const auto queries = [&] { return at.queries(slot()) + group * 64 * Tile::Queries::swizzle; };
  // What the warpgroup has to do, told anew for each part of it: registers are few.
  const auto do_part = [&](auto work) KILN_INLINE {
    const auto place = load_shared<typename Memory::Place>(at.place(anew(slot())));
    const BlockOfRows of(u32(uniform(place[0])), uniform(place[1]), int(scores.sight.queries));
    const SeenTiles tiles = tiles_of(of);
    work(of, tiles, tiles_of_group<Tile>(scores.sight, of, tiles, group));
  };
  auto starts = at.starts();
#pragma unroll 1
  for (;; ++round) {
    mbarrier_wait(at.queries_full(slot()), parity());
    if (load_shared<typename Memory::Place>(at.place(slot()))[0] < 0)
      return;
    RunningSoftmax<Scores::has_bias> softmax;
    float o[Tile::wide][4] = {};
    do_part([&](const BlockOfRows& of, const SeenTiles& tiles, TilesOfGroup seen) KILN_INLINE {
      const auto of_head = scores.of(of.head);
      attend_keys<Tile>(o, softmax, ring, now, queries(), FromZero{}, of_head,
                        read_mask<Tile::keys>(of_head, tiles.first), of.first + lane_row(),
                        seen_by_warp(scores.sight, of), tiles.first, seen.whole, starts);
    });
    if constexpr (can_halve<Tile>)
      do_part([&](const BlockOfRows& of, const SeenTiles& tiles, TilesOfGroup seen) KILN_INLINE {
        if (seen.has_half)
          attend_half<Tile>(o, softmax, ring, now, queries(), scores.of(of.head),
                            of.first + lane_row(), seen_by_warp(scores.sight, of),
                            tiles.first + seen.whole * Tile::keys, starts);
      });
    do_part([&](const BlockOfRows& of, const SeenTiles& tiles, TilesOfGroup seen) KILN_INLINE {
      pass_keys(ring, now, tiles.count - seen.count(), starts);
      const int thread = anew(thread_index()), warp = thread / 32;
      finish_rows<Tile::row_value_width>(
          own_part<typename Output::Element, Tile::row_value_width>(at.stored(), warp), softmax, o,
          scores.factor(), of.head, of.first + 16 * warp, of.end, output, lse,
          ThisLane{thread % 32});
    });
    warp_barrier();               // the next tile's rows are stored through the same memory
    if (thread_index() % 32 == 0) // of whose warp all lanes know where it is
      mbarrier_arrive(at.queries_free(slot()));
  }
}

} // namespace kiln
