// Attention by products of warpgroups (attention_warpgroups.cuh) in blocks that stay: each takes
// one tile of queries after the other, and the next one's queries, keys and values come while this
// one is finished. Where there are three warpgroups they take turns to start products, so that the
// exponentials of one run beside the products of the others (Shah et al., FlashAttention-3, 2024,
// section 3.1).
#pragma once

#include "attention_warpgroups.cuh"

namespace kiln {

/// The tiles of queries that a block takes, head by head. Where attention is causal they come in
/// pairs that see as many keys together, so that all blocks have as much to do: of a head's tiles
/// the last and the first, and so on, and the middle one of an odd number with none, which begins
/// where there are no rows. Nothing but the round is kept from one to the next, since registers are
/// few.
template <int queries> struct TilesOfBlock {
  i64 heads, rows;
  bool has_pairs;
  u32 round = 0;

  KILN_DEVICE u32 tiles() const { return u32((rows + queries - 1) / queries); }
  KILN_DEVICE u32 items() const { return has_pairs ? (tiles() + 1) / 2 : tiles(); } // of a head
  KILN_DEVICE i64 number() const {
    return (has_pairs ? round / 2 : round) * block_count() + block_index();
  }
  KILN_DEVICE bool has_tile() const { return number() < heads * items(); }
  KILN_DEVICE BlockOfRows tile() const {
    const u32 all = items(), head = u32(number()) / all, item = u32(number()) % all;
    if (!has_pairs)
      return {head, int(item) * queries, int(rows)};
    // Heads begin with different pairs: else a block might have those of the middle tile alone.
    const u32 pair = (item + head + head / all) % all, last = tiles() - 1 - pair;
    const u32 tile = round % 2 == 0 ? last : pair < last ? pair : tiles();
    return {head, int(tile) * queries, int(rows)};
  }
};

/// Warpgroups start products one after the other, each once, and again. `first`: a barrier each.
template <int groups> struct OrderedStarts {
  u64* first;
  int group, parity;

  KILN_DEVICE OrderedStarts(u64* first, int group)
      : first(first), group(group), parity(group == 0 ? 1 : 0) {}
  KILN_DEVICE void initialize() const {
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

/// What a block keeps in shared memory: two tiles of queries, the ring, and what it stores.
template <class Tile, class Out> struct ResidentMemory {
  static constexpr int slots = 2;
  static constexpr int tiles = slots * Tile::Queries::bytes + KeyRing<Tile>::bytes;
  static constexpr int below = tiles + 4 * Tile::groups * store_bytes<Out, Tile::row_value_width>();
  static constexpr bool has_turns = Tile::groups > 2;
  static constexpr int barriers =
      2 * slots + KeyRing<Tile>::barriers + (has_turns ? Tile::groups : 0);
  static constexpr int bytes = below + barriers * int(sizeof(u64));
  static_assert(below % sizeof(u64) == 0, "barriers lie at multiples of 8");
  char* memory;

  KILN_DEVICE char* queries(int slot) const { return memory + slot * Tile::Queries::bytes; }
  KILN_DEVICE char* stored() const { return memory + tiles; }
  KILN_DEVICE u64* queries_full(int slot) const {
    return reinterpret_cast<u64*>(memory + below) + slot;
  }
  KILN_DEVICE u64* queries_free(int slot) const { return queries_full(slots + slot); }
  KILN_DEVICE KeyRing<Tile> ring() const { return {queries(slots), queries_full(2 * slots)}; }
  KILN_DEVICE auto starts() const {
    const int group = thread_index() / 128;
    u64* first = queries_full(2 * slots) + KeyRing<Tile>::barriers;
    if constexpr (has_turns)
      return OrderedStarts<Tile::groups>(first, group);
    else
      return FreeStarts{};
  }
  KILN_DEVICE void initialize() const {
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) {
      mbarrier_initialize(queries_full(slot), 1);
      mbarrier_initialize(queries_free(slot), Tile::groups);
    }
    ring().initialize();
    if constexpr (has_turns)
      starts().initialize();
  }
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_resident_bytes() {
  return ResidentMemory<Tile, Out>::bytes;
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
    return seen_tiles<Tile::queries, Tile::keys>(scores.sight, of.first, of.end, scores.sight.keys,
                                                 keys_of);
  };
  TilesOfBlock<Tile::queries> own{heads, scores.sight.queries, scores.sight.causal != Causal::none};
  const auto slot = [&] { return int(own.round % Memory::slots); };
  const auto parity = [&] { return int(own.round / Memory::slots % 2); };
  StagePhase<Tile::stages> now;
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() >= Tile::loader + 32)
      return;
#pragma unroll 1
    for (; own.has_tile(); ++own.round) {
      const BlockOfRows of = own.tile();
      const SeenTiles tiles = tiles_of(of);
      if (thread_index() != Tile::loader)
        continue;
      mbarrier_wait(at.queries_free(slot()), parity() ^ 1);
      query.template fetch<typename Tile::Queries>(at.queries(slot()), at.queries_full(slot()),
                                                   of.head, of.first);
#pragma unroll 1
      for (int tile = 0; tile < tiles.count; ++tile, now.advance())
        load_keys(ring, now, key, value, of.head, tiles.first + tile * Tile::keys);
    }
    return;
  }
  take_registers<working>();
  const int group = thread_index() / 128;
  auto starts = at.starts();
#pragma unroll 1
  for (; own.has_tile(); ++own.round) {
    const BlockOfRows of = own.tile();
    const SeenTiles tiles = tiles_of(of);
    const int row = of.first + lane_row();
    RunningSoftmax softmax;
    float o[Tile::wide][4] = {};
    const auto of_head = scores.of(of.head);
    const auto lane = read_mask<Tile::keys>(of_head, tiles.first);
    mbarrier_wait(at.queries_full(slot()), parity());
    attend_keys<Tile>(
        o, softmax, ring, now, at.queries(slot()) + group * 64 * Tile::Queries::swizzle, FromZero{},
        of_head, lane, row, seen_by_two(row, of.end, keys_of), tiles.first, tiles.count, starts);
    if (thread_index() % 128 == 0)
      mbarrier_arrive(at.queries_free(slot()));
    const int thread = anew(thread_index()), warp = thread / 32;
    finish_rows<Tile::row_value_width>(
        own_part<typename Output::Element, Tile::row_value_width>(at.stored(), warp), softmax, o,
        scores.factor(), of.head, of.first + 16 * warp, of.end, output, lse, ThisLane{thread % 32});
    warp_barrier(); // the next tile's rows are stored through the same memory
  }
}

} // namespace kiln
