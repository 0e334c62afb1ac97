// Attention of heads that share a bias, as rows of a pair representation do (Jumper et al.,
// AlphaFold, 2021, algorithms 7, 13 and 14): a block keeps the bias of its tile of queries in
// shared memory and takes the heads that share it one after the other, some side by side, each by
// warpgroups of its own. One more warpgroup loads, a thread for each of the heads side by side.
#pragma once

#include "attention_warpgroups.cuh"

namespace kiln {

/// `stages`: of each of the `side` heads side by side. `held`: keys of the bias, a multiple of 64,
/// in whole tiles of `keys`. `differentiates`: the gradient of queries is computed, so that the
/// output's gradient is loaded beside them, and rows of `width` are stored.
template <class T, int width, int value_width, int queries, int keys, int stages, int side_,
          int held_, bool differentiates_>
struct SharedBiasTile : WarpgroupTile<T, width, value_width, queries, keys, stages> {
  static constexpr int side = side_, held = held_;
  static constexpr bool differentiates = differentiates_;
  static constexpr int slots = 2; // of what a head has of its own, for each of the heads
  using Bias = SwizzledTile<queries, held>;
  using Queries = SwizzledTile<queries, width>;
  using Gradients = SwizzledTile<queries, value_width>;
  static constexpr int own_tiles = differentiates ? 2 : 1;
  static constexpr int own_bytes = Queries::bytes + (differentiates ? Gradients::bytes : 0);
  static constexpr int stored_width = differentiates ? width : value_width;
  static_assert(held % 64 == 0, "panels of a bias are 64 keys wide");
  static constexpr int loader = 2 * queries * side; // the first thread of those that load
  static_assert(side <= 4, "a warp loads for each of the heads side by side");
};

/// What a block keeps in shared memory: the bias, then of each head side by side what it has of its
/// own (queries, and the output's gradient), then of each its ring, then what warps store rows
/// through, then the barriers.
template <class Tile, class Out> struct SharedBiasMemory {
  static constexpr int own_at = Tile::Bias::bytes;
  static constexpr int rings_at = own_at + Tile::side * Tile::slots * Tile::own_bytes;
  static constexpr int stores_at = rings_at + Tile::side * KeyRing<Tile>::bytes;
  static constexpr int store = store_bytes<Out, Tile::stored_width>(); // of a warp
  static constexpr int barriers_at = stores_at + Tile::side * Tile::queries / 16 * store;
  static constexpr int of_side = 2 * Tile::slots + KeyRing<Tile>::barriers;
  static constexpr int bytes = barriers_at + (1 + Tile::side * of_side) * int(sizeof(u64));
  char* memory;

  KILN_DEVICE char* bias() const { return memory; }
  KILN_DEVICE char* own(int side, int slot) const {
    return memory + own_at + (side * Tile::slots + slot) * Tile::own_bytes;
  }
  KILN_DEVICE char* stored_by(int warp) const { return memory + stores_at + warp * store; }
  KILN_DEVICE u64* barrier(int which) const {
    return reinterpret_cast<u64*>(memory + barriers_at) + which;
  }
  KILN_DEVICE u64* bias_full() const { return barrier(0); }
  KILN_DEVICE u64* own_full(int side, int slot) const { return barrier(1 + side * of_side + slot); }
  KILN_DEVICE u64* own_free(int side, int slot) const { return own_full(side, slot) + Tile::slots; }
  KILN_DEVICE KeyRing<Tile> ring(int side) const {
    return {memory + rings_at + side * KeyRing<Tile>::bytes, own_full(side, 0) + 2 * Tile::slots};
  }

  KILN_DEVICE void initialize() const {
    mbarrier_initialize(bias_full(), 1);
#pragma unroll
    for (int side = 0; side < Tile::side; ++side) {
#pragma unroll
      for (int slot = 0; slot < Tile::slots; ++slot) {
        mbarrier_initialize(own_full(side, slot), Tile::own_tiles);
        mbarrier_initialize(own_free(side, slot), Tile::groups);
      }
      ring(side).initialize();
    }
  }
};
template <class Tile, class Out> KILN_DEVICE constexpr int shared_bias_bytes() {
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

/// What a head has of its own, for its block's tile of queries.
template <class Tile> struct OwnQueries {
  const MappedHeads& query;
  KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row) const {
    query.template fetch<typename Tile::Queries>(to, full, head, row);
  }
};
template <class Tile> struct OwnQueriesAndGradients {
  const MappedHeads &query, &gradient;
  KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row) const {
    query.template fetch<typename Tile::Queries>(to, full, head, row);
    gradient.template fetch<typename Tile::Gradients>(to + Tile::Queries::bytes, full, head, row);
  }
};

/// What the thread that loads for one of the heads side by side does: all heads that these take,
/// one after the other, as far ahead as slots and stages are free.
template <class Tile, class Memory, class Scores, class Own>
KILN_DEVICE void load_sharers(const Memory& at, const Scores& scores, const Own& own,
                              const MappedHeads& key, const MappedHeads& value,
                              const BlockOfSharers& block, const SeenTiles& tiles, int side) {
  const KeyRing<Tile> ring = at.ring(side);
  StagePhase<Tile::stages> stage;
  StagePhase<Tile::slots> slot;
#pragma unroll 1
  for (int i = block.first + side; i < block.end; i += Tile::side, slot.advance()) {
    const u32 head = u32(scores.heads.offset(block.head + i)); // in the tensors' order
    mbarrier_wait(at.own_free(side, slot.stage), slot.parity ^ 1);
    own.fetch(at.own(side, slot.stage), at.own_full(side, slot.stage), head, block.first_query);
#pragma unroll 1
    for (int tile = 0; tile < tiles.count; ++tile, stage.advance())
      load_keys(ring, stage, key, value, head, tiles.first + tile * Tile::keys);
  }
}

/// What is the same for all heads that a warp takes.
template <class Tile> struct SharersTurn {
  int first_query;
  TwoSpans seen;
  SeenTiles tiles;

  // Made of the thread's number whenever they are asked for: registers are scarce.
  KILN_DEVICE static int warp() { return anew(thread_index()) / 32; }
  /// The first of the warp's rows in the tile, and of its warpgroup's.
  KILN_DEVICE static int row_in_tile() { return warp() * 16 % Tile::queries; }
  KILN_DEVICE static int group_row() { return row_in_tile() / 64 * 64; }
  KILN_DEVICE int first_row() const { return first_query + row_in_tile(); }
  /// Of the thread.
  KILN_DEVICE int row() const { return first_row() + thread_index() % 32 / 4; }
};

/// Takes the block's heads one after the other: `work(turn, head, lane, own, own_free, ring, now,
/// start)` does so for a warpgroup's 64 queries of one, whose own tiles have arrived, and of whose
/// first tile of keys `lane` has read the mask. `scores` are those without their bias, which `bias`
/// shows, (keys, queries, inner biases, outer biases) of `BiasElement`. `loading` and `working`:
/// registers of a thread.
template <class BiasElement, int loading, int working, class Tile, class Memory, class Scores,
          class Own, class Work>
KILN_DEVICE void take_sharers(Tile, const Memory& at, const Scores& scores,
                              const BlockOfSharers& block, const Own& own, const MappedHeads& key,
                              const MappedHeads& value, const MappedHeads& bias, Work work) {
  if (thread_index() == Tile::loader) {
    at.initialize();
    mbarrier_fence();
  }
  block_barrier();
  const int end = int(scores.sight.queries);
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::keys>(scores.sight, block.first_query,
                                                                end, scores.sight.keys, keys_of);
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() == Tile::loader)
      bias.template fetch<typename Tile::Bias>(at.bias(), at.bias_full(), block.bias,
                                               block.first_query);
    const int warp = (thread_index() - Tile::loader) / 32;
    if (thread_index() % 32 == 0 && warp < Tile::side && tiles.count > 0)
      load_sharers<Tile>(at, scores, own, key, value, block, tiles, warp);
    return;
  }
  take_registers<working>();
  const int side = thread_index() / (2 * Tile::queries);
  SharersTurn<Tile> turn{block.first_query, {}, tiles};
  turn.seen = seen_by_two(turn.row(), end, keys_of);

  const HeldBias<Tile, BiasElement> start(at.bias(), scores.scale);
  const auto mask_of = [&](int i) {
    return read_mask<Tile::keys>(scores.of(block.head + i), tiles.first);
  };
  StagePhase<Tile::stages> now;
  StagePhase<Tile::slots> slot;
  int i = block.first + side;
  LaneOfMask<Tile::keys> next;
  if (i < block.end)
    next = mask_of(i);
  mbarrier_wait(at.bias_full(), 0);
#pragma unroll 1
  for (; i < block.end; i += Tile::side, slot.advance()) {
    const LaneOfMask<Tile::keys> lane = next;
    if (i + Tile::side < block.end)
      next = mask_of(i + Tile::side);
    if (tiles.count > 0)
      mbarrier_wait(at.own_full(side, slot.stage), slot.parity);
    work(turn, block.head + i, lane, at.own(side, slot.stage), at.own_free(side, slot.stage),
         at.ring(side), now, start);
    warp_barrier(); // the next head's rows are stored through the same memory
  }
}

template <class BiasElement, int groups, int loading, int working, class Tile, class Scores,
          class Output, class Lse>
KILN_DEVICE void attend_sharing(Tile tile, char* memory, const Scores& scores, i64 biases,
                                i64 sharing, const MappedHeads& query, const MappedHeads& key,
                                const MappedHeads& value, const MappedHeads& bias,
                                const Output& output, const Lse& lse) {
  const SharedBiasMemory<Tile, typename Output::Element> at{memory};
  const BlockOfSharers block(scores.sight.queries, Tile::queries, biases, sharing, groups);
  const auto attend = [&](const SharersTurn<Tile>& turn, u32 head,
                          const LaneOfMask<Tile::keys>& lane, const char* own, u64* own_free,
                          const KeyRing<Tile>& ring, StagePhase<Tile::stages>& now,
                          const auto& start) {
    RunningSoftmax softmax;
    float o[Tile::wide][4] = {};
    attend_keys<Tile>(o, softmax, ring, now, own + turn.group_row() * Tile::Queries::swizzle, start,
                      scores.of(head), lane, turn.row(), turn.seen, turn.tiles.first,
                      turn.tiles.count);
    if (thread_index() % 128 == 0)
      mbarrier_arrive(own_free);
    finish_rows<Tile>(at.stored_by(turn.warp()), softmax, o, scores.factor(), head,
                      turn.first_row(), int(scores.sight.queries), output, lse);
  };
  take_sharers<BiasElement, loading, working>(tile, at, scores, block, OwnQueries<Tile>{query}, key,
                                              value, bias, attend);
}

} // namespace kiln
