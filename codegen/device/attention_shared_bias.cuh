// Attention of heads that share a bias, as rows of a pair representation do (Jumper et al.,
// AlphaFold, 2021, algorithms 7, 13 and 14): a block keeps the bias of its tile of rows in shared
// memory and takes the heads that share it one after the other, some side by side, each by
// warpgroups of its own. One more warpgroup loads, a warp for each of the heads side by side. A
// block's own rows are queries, and it walks over keys, or the other way round. Without a bias all
// heads are taken so.
#pragma once

#include "attention_held_bias.cuh"

namespace kiln {

struct NoNumbers {};
/// For the map of a bias where there is none.
struct NoBias {
  template <class Tile, int box = 0> KILN_DEVICE void fetch(char*, u64*, u32, int, int = 0) const {}
};

/// `stages`: of each of the `side` heads side by side. `differentiates`: beside its own rows of
/// `width` a block loads those of `value_width`. `Bias_`: the part of it that a block holds.
/// `Number_`: what comes with each row that a block walks over, or NoNumbers.
template <class T, int width_, int value_width_, int own, int others, int stages, int side_,
          int slots_, class Walk_, class Bias_, bool differentiates_, class Number_>
struct SharersTile : WarpgroupTile<T, width_, value_width_, own, others, stages> {
  using Rows = WarpgroupTile<T, width_, value_width_, own, others, stages>;
  static constexpr int side = side_;
  static constexpr bool differentiates = differentiates_;
  static constexpr bool is_crowded = side > 1; // a thread's registers with what only it has
  static constexpr bool reads_ahead = true;    // of a mask, what the next head needs
  static constexpr int sum_bytes = 0;          // of sums that lie in shared memory
  static constexpr int cluster = 1;            // blocks that share heads
  static constexpr int slope_bytes = 0;        // of score gradients that lie in shared memory
  static constexpr int hand_over_bytes = 0;    // of what blocks of a cluster hand each other
  static constexpr int slots = slots_; // of what a head has of its own, for each of the heads
  using Walk = Walk_;
  using Bias = Bias_;
  static KILN_DEVICE constexpr bool has_bias() { return Bias::bytes > 0; }
  using Queries = SwizzledTile<own, Rows::width>;
  using Gradients = SwizzledTile<own, Rows::value_width>;
  static constexpr int own_tiles = differentiates ? 2 : 1;
  static constexpr int own_bytes = Queries::bytes + (differentiates ? Gradients::bytes : 0);
  using Number = Number_;
  static constexpr bool has_numbers = !same_type<Number, NoNumbers>;
  static constexpr int number_bytes = has_numbers ? stages * others * int(sizeof(Number)) : 0;
  static_assert(Bias::width % 64 == 0, "panels of a bias are 64 keys wide");
  static constexpr int loaders = has_numbers ? 32 : 1; // each lane tells of its rows' numbers
  // A warpgroup's products tell when they are done, its warps when they have read numbers.
  static constexpr int readers = (has_numbers ? 128 : 1) * own / 64;
  static constexpr int loader = 2 * own * side; // the first thread of those that load
  static_assert(side <= 4, "a warp loads for each of the heads side by side");

  /// Whether what a block walks over is one tile.
  static KILN_DEVICE constexpr bool is_one_tile() { return false; }
  /// The first row of the step-th tile that a block walks over.
  static KILN_DEVICE int row_of(const SeenTiles& tiles, int step) {
    return tiles.first + step * others;
  }
};
/// A block has `queries` queries and holds the bias of all keys, or of its tile of them: `held`, a
/// multiple of 64; 0: there is no bias.
template <class T, int width, int value_width, int queries, int keys, int stages, int side,
          int slots, int held, bool differentiates, bool widens>
using SharedBiasTile =
    SharersTile<T, width, value_width, queries, keys, stages, side, slots, OverKeys,
                conditional<widens, WidenedTile<queries, held>, SwizzledTile<queries, held>>,
                differentiates, NoNumbers>;

/// What a block keeps in shared memory: the bias, then of each head side by side what it has of its
/// own (queries, and the output's gradient; or keys and values), then of each its ring, then what
/// warps store rows through, `store` bytes each, then numbers of rows, then the barriers.
template <class Tile, int store> struct SharedBiasMemory {
  static constexpr int own_at = Tile::Bias::bytes;
  static constexpr int rings_at = own_at + Tile::side * Tile::slots * Tile::own_bytes;
  static constexpr int slopes_at = rings_at + Tile::side * KeyRing<Tile>::bytes;
  static constexpr int handed_at = slopes_at + Tile::slope_bytes;
  static constexpr int stores_at = handed_at + Tile::hand_over_bytes;
  static constexpr int numbers_at = stores_at + Tile::side * Tile::queries / 16 * store;
  static constexpr int sums_at = numbers_at + Tile::side * Tile::number_bytes;
  static constexpr int barriers_at = sums_at + Tile::side * Tile::sum_bytes;
  static constexpr int of_side = 2 * Tile::slots + KeyRing<Tile>::barriers;
  static constexpr int handing =
      1 + Tile::side * of_side; // the first barrier of those that hand over
  static constexpr int bytes =
      barriers_at + (handing + (Tile::cluster > 1 ? 4 : 0)) * int(sizeof(u64));
  char* memory;

  KILN_DEVICE char* bias() const { return memory; }
  KILN_DEVICE char* own(int side, int slot) const {
    return memory + own_at + (side * Tile::slots + slot) * Tile::own_bytes;
  }
  KILN_DEVICE char* slopes(int which) const {
    return memory + slopes_at + which * (Tile::slope_bytes / 2);
  }
  /// What another block of the cluster hands to this one, in one of two places. Who fills it waits
  /// until its own barrier tells that it is free.
  KILN_DEVICE char* handed(int place) const {
    return memory + handed_at + place * (Tile::hand_over_bytes / 2);
  }
  KILN_DEVICE u64* handed_full(int place) const { return barrier(handing + place); }
  KILN_DEVICE u64* handed_free(int place) const { return barrier(handing + 2 + place); }
  KILN_DEVICE char* stored_by(int warp) const { return memory + stores_at + warp * store; }
  KILN_DEVICE auto numbers(int side, int stage) const {
    return reinterpret_cast<typename Tile::Number*>(memory + numbers_at +
                                                    side * Tile::number_bytes) +
           stage * Tile::keys;
  }
  KILN_DEVICE char* sums() const { return memory + sums_at; }
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
    if constexpr (Tile::cluster > 1)
#pragma unroll
      for (int place = 0; place < 2; ++place) {
        mbarrier_initialize(handed_full(place), 1);
        mbarrier_initialize(handed_free(place), 4); // warps
        mbarrier_arrive_expecting(handed_full(place), Tile::hand_over_bytes / 2);
      }
  }
};
/// `stored_width`: of the rows that are stored as `Out`; 0: none.
template <class Tile, class Out, int stored_width> KILN_DEVICE constexpr int shared_bias_bytes() {
  return SharedBiasMemory < Tile,
         stored_width == 0 ? 0 : store_bytes<Out, stored_width>() > ::bytes;
}

/// What a head has of its own, for its block's tile of rows.
template <class Tile> struct OwnQueries {
  const MappedHeads& query;
  KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row) const {
    query.template fetch<typename Tile::Queries>(to, full, head, row);
  }
};
template <class Tile>
struct OwnPair { // of queries and the output's gradient, or of keys and values
  const MappedHeads &first, &second;
  KILN_DEVICE void fetch(char* to, u64* full, u32 head, int row) const {
    first.template fetch<typename Tile::Queries>(to, full, head, row);
    second.template fetch<typename Tile::Gradients>(to + Tile::Queries::bytes, full, head, row);
  }
};

/// What is loaded for a head: what it has of its own, and the two tensors that pass through a ring,
/// with their rows' numbers or NoNumbers.
template <class Own, class Numbers> struct Loads {
  const Own& own;
  const MappedHeads &first, &second;
  const Numbers& numbers;
};

/// What the warp that loads for one of the heads side by side does, or its first lane alone: all
/// heads that these take, one after the other, as far ahead as slots and stages are free.
template <class Tile, class Memory, class Scores, class Loads>
KILN_DEVICE void load_sharers(const Memory& at, const Scores& scores, const Loads& loads,
                              const BlockOfSharers& block, const SeenTiles& tiles, int side) {
  const KeyRing<Tile> ring = at.ring(side);
  StagePhase<Tile::stages> stage;
  StagePhase<Tile::slots> slot;
#pragma unroll 1
  for (int i = block.first + side; i < block.end; i += Tile::side, slot.advance()) {
    const u32 head = u32(scores.heads.offset(block.head + i)); // in the tensors' order
    const auto fetch_own = [&] {
      mbarrier_wait(at.own_free(side, slot.stage), slot.parity ^ 1);
      loads.own.fetch(at.own(side, slot.stage), at.own_full(side, slot.stage), head,
                      block.first_row);
    };
    if constexpr (Tile::has_numbers) {
      const bool is_first = thread_index() % Tile::loaders == 0;
      const i64 rows = Tile::Walk::others(scores.sight);
      auto numbers = loads.numbers.template read<Tile::keys, Tile::has_bias()>(
          block.head + i, Tile::row_of(tiles, 0), rows);
      if (is_first)
        fetch_own();
#pragma unroll 1
      for (int tile = 0; tile < tiles.count; ++tile, stage.advance()) {
        const int row = Tile::row_of(tiles, tile);
        const auto of_tile = numbers;
        if constexpr (!Tile::is_one_tile())
          numbers = loads.numbers.template read<Tile::keys, Tile::has_bias()>(
              block.head + i, Tile::row_of(tiles, tile + 1), rows);
        mbarrier_wait(ring.values_free(stage.stage), stage.parity ^ 1);
        of_tile.store(at.numbers(side, stage.stage));
        if (is_first)
          load_keys(ring, stage, loads.first, loads.second, head, row);
        else
          mbarrier_arrive(ring.keys_full(stage.stage));
      }
    } else {
      fetch_own();
#pragma unroll 1
      for (int tile = 0; tile < tiles.count; ++tile, stage.advance())
        load_keys(ring, stage, loads.first, loads.second, head, Tile::row_of(tiles, tile));
    }
  }
}

/// Starts the products of which the gradients of a stage's scores are made, when it is full: `s` of
/// the warpgroup's own rows, to what is in the accumulators if it `adds`, and `dp` of their others
/// (queries and the output's gradient, or keys and values).
template <class Tile, bool adds>
KILN_DEVICE void start_scores(float (&s)[Tile::deep][4], float (&dp)[Tile::deep][4],
                              const KeyRing<Tile>& ring, const StagePhase<Tile::stages>& now,
                              const char* rows, const char* others) {
  using T = typename Tile::Element;
  mbarrier_wait(ring.keys_full(now.stage), now.parity);
  start_rows<T, typename Tile::Queries, typename Tile::Keys, adds>(s, rows, ring.keys(now.stage));
  mbarrier_wait(ring.values_full(now.stage), now.parity);
  start_rows<T, typename Tile::Gradients, typename Tile::Values, false>(dp, others,
                                                                        ring.values(now.stage));
}

/// The threads of the blocks that share heads meet.
template <class Tile> KILN_DEVICE void meet_blocks() {
  if constexpr (Tile::cluster == 1) {
    block_barrier();
  } else {
    warp_barrier();
    cluster_arrive();
    cluster_wait();
  }
}

/// Begins a block, and does all that the warps do which load: true for their threads, which are
/// then done. `fetch_bias(to, full)` begins to load the bias. `loading`: registers of a thread.
template <int loading, class Tile, class Memory, class Scores, class Loads, class FetchBias>
KILN_DEVICE bool has_loaded_sharers(Tile, const Memory& at, const Scores& scores,
                                    const BlockOfSharers& block, const SeenTiles& tiles,
                                    const Loads& loads, FetchBias fetch_bias) {
  if (thread_index() == Tile::loader) {
    at.initialize();
    mbarrier_fence();
  }
  meet_blocks<Tile>();
  if (thread_index() < Tile::loader)
    return false;
  give_up_registers<loading>();
  if (thread_index() == Tile::loader)
    fetch_bias(at.bias(), at.bias_full());
  const int warp = (thread_index() - Tile::loader) / 32;
  const bool loads_here = Tile::has_numbers || thread_index() % 32 == 0;
  if (loads_here && (Tile::loaders > 32 || warp < Tile::side) && tiles.count > 0)
    load_sharers<Tile>(at, scores, loads, block, tiles, Tile::side == 1 ? 0 : warp);
  if constexpr (Tile::cluster > 1)
    meet_blocks<Tile>(); // nobody reaches a block that has ended
  return true;
}

/// Takes the block's heads one after the other: `work(turn, head, mask, own, own_free, side, now,
/// start)` does so for a warpgroup's 64 rows of one, whose own tiles have arrived, and of whose
/// mask `mask` has been read. `scores` are those without their bias, of which a Start gives
/// accumulators their beginning, which `prepare` readies. `tiles`: what the block walks over.
/// `working`: registers of a thread.
template <class Start, int working, class Tile, class Memory, class Scores, class Work>
KILN_DEVICE void take_sharers(Tile, const Memory& at, const Scores& scores,
                              const BlockOfSharers& block, const SeenTiles& tiles, Work work) {
  using Walk = typename Tile::Walk;
  take_registers<working>();
  const int side = RowsOfWarp<Tile>::side();
  const SharersTurn<Tile, decltype(scores.sight)> turn(scores.sight, block.first_row, tiles);
  const Start start(at.bias(), scores.scale);
  const auto mask_of = [&](int i) {
    return Walk::template ahead<Tile>(scores.of(block.head + i), turn.row(), tiles.first);
  };
  StagePhase<Tile::stages> now;
  StagePhase<Tile::slots> slot;
  int i = block.first + side;
  auto next = decltype(mask_of(i)){};
  if (Tile::reads_ahead && i < block.end)
    next = mask_of(i);
  if constexpr (Start::adds) {
    mbarrier_wait(at.bias_full(), 0);
    start.prepare();
  }
#pragma unroll 1
  for (; i < block.end; i += Tile::side, slot.advance()) {
    const auto mask = Tile::reads_ahead ? next : mask_of(i);
    if (Tile::reads_ahead && i + Tile::side < block.end)
      next = mask_of(i + Tile::side);
    if (tiles.count > 0)
      mbarrier_wait(at.own_full(side, slot.stage), slot.parity);
    work(turn, block.head + i, mask, at.own(side, slot.stage), at.own_free(side, slot.stage), side,
         now, start);
    warp_barrier(); // the next head's rows are stored through the same memory
  }
}

template <class BiasElement, int groups, int loading, int working, class Tile, class Scores,
          class Bias, class Output, class Lse>
KILN_DEVICE void attend_sharing(Tile tile, char* memory, const Scores& scores, i64 biases,
                                i64 sharing, const MappedHeads& query, const MappedHeads& key,
                                const MappedHeads& value, const Bias& bias, const Output& output,
                                const Lse& lse) {
  const SharedBiasMemory<Tile, store_bytes<typename Output::Element, Tile::row_value_width>()> at{
      memory};
  const BlockOfSharers block(tile, scores, block_index(), biases, sharing, groups);
  const SeenTiles tiles = tiles_of<Tile>(scores, block);
  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias>(to, full, block.bias, block.first_row);
  };
  if (has_loaded_sharers<loading>(tile, at, scores, block, tiles,
                                  Loads<OwnQueries<Tile>, NoNumbers>{{query}, key, value, {}},
                                  fetch_bias))
    return;
  const auto attend = [&](const auto& turn, u32 head, const LaneOfMask<Tile::keys>& lane,
                          const char* own, u64* own_free, int side, StagePhase<Tile::stages>& now,
                          const auto& start) {
    RunningSoftmax<Tile::has_bias()> softmax;
    float o[Tile::wide][4] = {};
    attend_keys<Tile>(o, softmax, at.ring(side), now,
                      own + turn.group_row() * Tile::Queries::swizzle, start, scores.of(head), lane,
                      turn.row(), turn.seen, turn.tiles.first, turn.tiles.count);
    if (thread_index() % 128 == 0)
      mbarrier_arrive(own_free);
    finish_rows<Tile::row_value_width>(at.stored_by(turn.warp()), softmax, o, scores.factor(), head,
                                       turn.first_row(), int(scores.sight.queries), output, lse);
  };
  take_sharers<BiasOfQueries<Tile, BiasElement>, working>(tile, at, scores, block, tiles, attend);
}

} // namespace kiln
