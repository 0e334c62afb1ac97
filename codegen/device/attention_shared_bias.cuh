// Attention of heads that share a bias, as rows of a pair representation do (Jumper et al.,
// AlphaFold, 2021, algorithms 7, 13 and 14): a block keeps the bias of its tile of queries in
// shared memory and takes the heads that share it one after the other, some side by side, each by
// warpgroups of its own, of which one thread loads ahead.
#pragma once

#include "attention_warpgroups.cuh"

namespace kiln {

/// `stages`: of each of the `side` heads side by side. `held`: keys of the bias, a multiple of 64,
/// in whole tiles of `keys`.
template <class T, int width, int value_width, int queries, int keys, int stages, int side_,
          int held_>
struct SharedBiasTile : WarpgroupTile<T, width, value_width, queries, keys, stages> {
  static constexpr int side = side_, held = held_;
  static constexpr int slots = 2; // of queries, for each of the heads
  using Bias = SwizzledTile<queries, held>;
  static_assert(held % 64 == 0, "panels of a bias are 64 keys wide");
  static_assert(stages > 2, "a tile is loaded while two are in use");
};

/// How far the thread that loads for the warpgroups of a head has come.
template <class Tile> struct LoadState {
  struct alignas(16) Keys {
    int head, tile; // the next: of the heads that share the bias, and of its tiles
    StagePhase<Tile::stages> stage;
  };
  struct alignas(16) Queries {
    StagePhase<Tile::slots> slot;
    int tiles_ahead, heads_ahead; // loaded, and not begun; not done
  };
  Keys keys;
  Queries queries;

  static KILN_DEVICE LoadState load(const LoadState* from) {
    return {load_shared<Keys>(&from->keys), load_shared<Queries>(&from->queries)};
  }
  KILN_DEVICE void store(LoadState* to) const {
    store_shared(&to->keys, keys);
    store_shared(&to->queries, queries);
  }
};

/// What a block keeps in shared memory: the bias, then of each head side by side its queries, then
/// of each its ring, then what warps store rows through, then how far loads have come, then the
/// barriers.
template <class Tile, class Out> struct SharedBiasMemory {
  static constexpr int queries_at = Tile::Bias::bytes;
  static constexpr int rings_at = queries_at + Tile::side * Tile::slots * Tile::Queries::bytes;
  static constexpr int stores_at = rings_at + Tile::side * KeyRing<Tile>::bytes;
  static constexpr int store = store_bytes<Out, Tile::value_width>(); // of a warp
  static constexpr int states_at = stores_at + Tile::side * Tile::queries / 16 * store;
  static constexpr int barriers_at = states_at + Tile::side * int(sizeof(LoadState<Tile>));
  static constexpr int of_side = 2 * Tile::slots + KeyRing<Tile>::barriers;
  static constexpr int bytes = barriers_at + (1 + Tile::side * of_side) * int(sizeof(u64));
  char* memory;

  KILN_DEVICE char* bias() const { return memory; }
  KILN_DEVICE char* queries(int side, int slot) const {
    return memory + queries_at + (side * Tile::slots + slot) * Tile::Queries::bytes;
  }
  KILN_DEVICE u64* barrier(int which) const {
    return reinterpret_cast<u64*>(memory + barriers_at) + which;
  }
  KILN_DEVICE u64* bias_full() const { return barrier(0); }
  KILN_DEVICE u64* queries_full(int side, int slot) const {
    return barrier(1 + side * of_side + slot);
  }
  KILN_DEVICE u64* queries_free(int side, int slot) const {
    return queries_full(side, slot) + Tile::slots;
  }
  KILN_DEVICE KeyRing<Tile> ring(int side) const {
    return {memory + rings_at + side * KeyRing<Tile>::bytes,
            queries_full(side, 0) + 2 * Tile::slots};
  }

  KILN_DEVICE LoadState<Tile>* load_state(int side) const {
    return reinterpret_cast<LoadState<Tile>*>(memory + states_at) + side;
  }

  KILN_DEVICE void initialize() const {
    mbarrier_initialize(bias_full(), 1);
#pragma unroll
    for (int side = 0; side < Tile::side; ++side) {
#pragma unroll
      for (int slot = 0; slot < Tile::slots; ++slot) {
        mbarrier_initialize(queries_full(side, slot), 1);
        mbarrier_initialize(queries_free(side, slot), Tile::groups);
      }
      ring(side).initialize();
    }
  }
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_sharing_bytes() {
  return SharedBiasMemory<Tile, Out>::bytes;
}

/// What a block works on: a tile of queries, a bias, and [first, end) of the heads that share it,
/// of which the grid has `groups` groups. Tiles of queries come first in the grid, then biases.
/// Heads are counted so that those that share a bias are neighbours, `sharing` of them.
struct BlockOfSharers {
  u32 bias, head; // the bias's first head
  int first, end; // of those that share it
  int first_query;

  KILN_DEVICE BlockOfSharers(i64 queries, int tile, i64 biases, i64 sharing, int groups) {
    const i64 tiles = (queries + tile - 1) / tile;
    const i64 block = block_index(), of_bias = block / tiles, group = of_bias / biases;
    bias = u32(of_bias % biases);
    head = bias * u32(sharing);
    first = int(sharing * group / groups);
    end = int(sharing * (group + 1) / groups);
    first_query = int(block % tiles) * tile;
  }
};

/// The bias of 64 queries as a tensor map has brought it, for accumulators of scores: over the
/// scale, since exponents are made of both.
template <class Tile, class Element> struct HeldBias {
  static constexpr bool adds = true;
  const char* row; // the lane's row of matrices, in the first panel
  float over_scale;

  KILN_DEVICE HeldBias(const char* bias, float scale)
      : row(bias + (lane_row() % Tile::queries / 16 * 16 + thread_index() % 16) * 128),
        over_scale(1.0f / scale) {}

  template <int deep> KILN_DEVICE void begin(float (&s)[deep][4], int first_key) const {
    const int lane = thread_index() % 32;
    const int first = anew(first_key);
#pragma unroll
    for (int n = 0; n < deep; n += 2) {
      const int key = first + 8 * n, panel = key / 64;
      const int column = (key % 64 / 8 + lane / 16) ^ (lane % 8); // in pieces of 16 bytes
      u32 words[4];
      load_matrices<false>(words, row + panel * Tile::Bias::panel_bytes + column * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Vec<Element, 2> pair = __builtin_bit_cast(Vec<Element, 2>, words[i]);
        s[n + i / 2][i % 2 * 2] = float(pair[0]) * over_scale;
        s[n + i / 2][i % 2 * 2 + 1] = float(pair[1]) * over_scale;
      }
    }
  }
};

/// What one thread of the warpgroups of a head loads for them: tiles of the heads to come, as far
/// ahead as the ring's stages go. Its state lies in shared memory, since all threads would spend
/// registers on it.
template <class Tile, class Memory, class Scores, class Query, class Key, class Value>
struct LoadAhead {
  using State = LoadState<Tile>;
  const Memory& at;
  const Scores& scores;
  const Query& query;
  const Key& key;
  const Value& value;
  const BlockOfSharers& block;
  const SeenTiles& tiles;
  int side;
  bool loads; // whether the thread is this one

  KILN_DEVICE void begin() const { load({{block.first + side, 0, {}}, {{}, 0, 0}}); }
  /// A tile is begun: of the one before, its values may still be in use.
  KILN_DEVICE void begin_tile() const {
    if (!loads)
      return;
    State state = State::load(at.load_state(side));
    --state.queries.tiles_ahead;
    load(state);
  }
  KILN_DEVICE void end_head() const {
    if (!loads)
      return;
    State state = State::load(at.load_state(side));
    --state.queries.heads_ahead;
    state.store(at.load_state(side));
  }
  KILN_DEVICE void load(State state) const {
    if (!loads)
      return;
    auto& [keys, queries] = state;
    while (keys.head < block.end && queries.tiles_ahead < Tile::stages - 2 &&
           (keys.tile > 0 || queries.heads_ahead < Tile::slots)) {
      const u32 head = u32(scores.heads.offset(block.head + keys.head)); // in the tensors' order
      if (keys.tile == 0) {
        const int slot = queries.slot.stage;
        mbarrier_wait(at.queries_free(side, slot), queries.slot.parity ^ 1);
        query.template fetch<typename Tile::Queries>(
            at.queries(side, slot), at.queries_full(side, slot), head, block.first_query);
        queries.slot.advance();
        ++queries.heads_ahead;
      }
      load_keys(at.ring(side), keys.stage, key, value, head, tiles.first + keys.tile * Tile::keys);
      keys.stage.advance();
      ++queries.tiles_ahead;
      if (++keys.tile == tiles.count) {
        keys.tile = 0;
        keys.head += Tile::side;
      }
    }
    state.store(at.load_state(side));
  }
};

/// `scores` are those without their bias, which `bias` shows, (keys, queries, inner biases, outer
/// biases) of `BiasElement`. `query`, `key`, `value`, `bias`: MappedHeads.
template <class BiasElement, int groups, class Tile, class Scores, class Query, class Key,
          class Value, class Bias, class Output, class Lse>
KILN_DEVICE void attend_sharing(Tile, char* memory, const Scores& scores, i64 biases, i64 sharing,
                                const Query& query, const Key& key, const Value& value,
                                const Bias& bias, const Output& output, const Lse& lse) {
  using Memory = SharedBiasMemory<Tile, typename Output::Element>;
  const Memory at{memory};
  const BlockOfSharers block(scores.sight.queries, Tile::queries, biases, sharing, groups);
  if (thread_index() == 0) {
    at.initialize();
    mbarrier_fence();
  }
  block_barrier();
  const int end = int(scores.sight.queries);
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles =
      seen_tiles<Tile::queries, Tile::keys>(scores.sight, block.first_query, end, keys_of);
  const int side = thread_index() / (2 * Tile::queries), warp = thread_index() / 32;
  const int row_in_tile = warp * 16 % Tile::queries; // of the warp
  const int row = block.first_query + row_in_tile + thread_index() % 32 / 4;
  const TwoSpans seen = seen_by_two(row, end, keys_of);
  const bool signals = thread_index() % 128 == 0;

  if (thread_index() == 0)
    bias.template fetch<typename Tile::Bias>(at.bias(), at.bias_full(), block.bias,
                                             block.first_query);
  const LoadAhead<Tile, Memory, Scores, Query, Key, Value> feed{
      at,    scores, query,
      key,   value,  block,
      tiles, side,   thread_index() % (2 * Tile::queries) == 0 && tiles.count > 0};
  feed.begin();
  const HeldBias<Tile, BiasElement> start(at.bias(), scores.scale);
  StagePhase<Tile::stages> now;
  StagePhase<Tile::slots> slot;
  mbarrier_wait(at.bias_full(), 0);
#pragma unroll 1
  for (int i = block.first + side; i < block.end; i += Tile::side, slot.advance()) {
    const u32 head = block.head + i;
    RunningSoftmax softmax;
    float o[Tile::wide][4] = {};
    if (tiles.count > 0)
      mbarrier_wait(at.queries_full(side, slot.stage), slot.parity);
    attend_keys<Tile>(o, softmax, at.ring(side), now,
                      at.queries(side, slot.stage) + row_in_tile / 64 * 64 * Tile::Queries::swizzle,
                      start, feed, scores.of(head), row, seen, tiles.first, tiles.count);
    if (signals)
      mbarrier_arrive(at.queries_free(side, slot.stage));
    feed.end_head();
    finish_rows<Tile>(memory + at.stores_at + anew(warp) * at.store, softmax, o, scores.factor(),
                      head, block.first_query + row_in_tile, end, output, lse);
    warp_barrier(); // the next head's rows go the same way
  }
}

} // namespace kiln
