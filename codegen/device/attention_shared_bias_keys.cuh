// The gradients of keys and values of heads that share a bias, which blocks hold
// (attention_shared_bias.cuh): a block has a tile of keys, holds the bias of all queries with them,
// and walks over queries. Scores are transposed, a thread's rows are keys. Of a tile of queries the
// products that make scores run beside those of the tile before that make gradients. Where there
// are few queries and narrow rows, the gradient of the bias is summed in registers beside them.
#pragma once

#include "attention_backward.cuh"
#include "attention_shared_bias.cuh"

namespace kiln {

/// A block has `keys` keys, and holds the bias of `held` queries, a multiple of 64, in whole tiles
/// of `queries`; 0: there is no bias.
template <class T, int width, int value_width, int queries, int keys, int stages, int side,
          int slots, int held>
using SharedBiasKeyTile = SharersTile<T, width, value_width, keys, queries, stages, side, slots,
                                      OverQueries, SwizzledTile<held, keys>, true, QueryNumbers>;

/// The same where the gradient of the bias is summed too, which leaves no registers for what the
/// next head needs. All queries are seen, in `tiles` tiles. A thread has so many registers for sums
/// at most; those of the other tiles lie in shared memory.
template <class T, int width, int value_width, int queries, int keys, int stages, int side,
          int slots, int held, int tiles_, int most_registers = 96>
struct SharedBiasSumTile
    : SharedBiasKeyTile<T, width, value_width, queries, keys, stages, side, slots, held> {
  static constexpr bool reads_ahead = false;
  static constexpr bool begins_ahead = false; // the scores of the next tile
  static constexpr int tiles = tiles_;
  static constexpr int most = 2 * most_registers / queries;
  static constexpr int in_registers = tiles < most ? tiles : most;
  static constexpr int sum_bytes = (tiles - in_registers) * keys * queries * int(sizeof(float));
};

template <class Tile, class OutK, class OutV> KILN_DEVICE constexpr int shared_bias_key_store() {
  return larger_store_bytes<OutK, Tile::row_width, OutV, Tile::row_value_width>();
}
template <class Tile, class OutK, class OutV> KILN_DEVICE constexpr int shared_bias_key_bytes() {
  return SharedBiasMemory<Tile, shared_bias_key_store<Tile, OutK, OutV>()>::bytes;
}

/// Numbers of the rows that a block walks over, which the loading warp reads a tile ahead.
template <class Lse, class Delta> struct NumbersOfRows {
  const Lse& lse;
  const Delta& delta;
  template <int rows> struct Read {
    static constexpr int words = (rows + 31) / 32;
    QueryNumbers of_lane[words];
    KILN_DEVICE void store(QueryNumbers* to) const {
#pragma unroll
      for (int j = 0; j < words; ++j)
        if (const int row = 32 * j + thread_index() % 32; row < rows)
          store_shared(to + row, of_lane[j]);
    }
  };
  /// `head`: counted as the kernel does.
  template <int rows, bool has_bias>
  KILN_DEVICE Read<rows> read(u32 head, int first, i64 end) const {
    Read<rows> numbers;
#pragma unroll
    for (int j = 0; j < numbers.words; ++j)
      numbers.of_lane[j] =
          numbers_of<has_bias>(lse, delta, head, first + 32 * j + thread_index() % 32, int(end));
    return numbers;
  }
};
/// The first of the queries that blocks walk over, where kernels one after the other have some
/// each.
template <class Tile> KILN_DEVICE constexpr int first_walked() {
  if constexpr (requires { Tile::first_query; })
    return Tile::first_query;
  else
    return 0;
}
/// The bias of 64 keys, for accumulators of transposed scores: over the scale, as HeldBias.
template <class Tile, class Element> struct HeldBiasOfKeys {
  static constexpr bool adds = Tile::Bias::bytes > 0;
  const char* row; // the lane's row of matrices of the first 16 queries
  float over_scale;

  KILN_DEVICE HeldBiasOfKeys(const char* bias, float scale) : over_scale(1.0f / scale) {
    const int lane = thread_index() % 32, query = lane / 16 * 8 + lane % 8;
    const int key = RowsOfWarp<Tile>::row_in_tile() + lane / 8 % 2 * 8;
    row = bias + key / 64 * Tile::Bias::panel_bytes + query * 128 +
          ((key % 64 / 8) ^ (query % 8)) * 16;
  }
  KILN_DEVICE void prepare() const {}
  template <int deep> KILN_DEVICE void begin(float (&s)[deep][4], int first_query) const {
    if constexpr (!adds)
      return;
    const char* from = row + (anew(first_query) - first_walked<Tile>()) * 128;
#pragma unroll
    for (int n = 0; n < deep; n += 2) {
      u32 words[4];
      load_matrices<true>(words, from + n * 8 * 128);
      widen_matrices<Element>(s, n, words, over_scale);
    }
  }
};

/// Sums of score gradients over the heads of a block, tile by tile of queries.
struct NoBiasSums {
  static constexpr int tiles = 0;
  KILN_DEVICE void clear(char*) {}
  template <int deep> KILN_DEVICE void add(const float (&)[deep][4], int) {}
  template <class Scores>
  KILN_DEVICE void store(const Scores&, const BlockOfSharers&, const SeenTiles&, i64) const {}
};
template <class Tile> struct BiasSums {
  static constexpr int tiles = Tile::tiles, deep = Tile::deep;
  float* partials; // (groups x side, biases, queries, keys)
  float of[Tile::in_registers][deep][4];
  Vec<float, 4>* others; // the thread's, of the other tiles

  KILN_DEVICE explicit BiasSums(float* partials) : partials(partials) {}
  KILN_DEVICE Vec<float, 4>* other(int tile, int n) const {
    return others + ((tile - Tile::in_registers) * deep + n) * Tile::loader;
  }
  KILN_DEVICE void clear(char* memory) {
    others = reinterpret_cast<Vec<float, 4>*>(memory) + thread_index();
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int n = 0; n < deep; ++n) {
        if (tile >= Tile::in_registers) {
          store_shared(other(tile, n), Vec<float, 4>{});
          continue;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
          of[tile][n][i] = 0.0f;
      }
  }
  KILN_DEVICE void add(const float (&ds)[deep][4], int tile) {
#pragma unroll
    for (int n = 0; n < deep; ++n) {
      if (tile < Tile::in_registers) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          of[tile][n][i] += ds[n][i];
      } else {
        auto sums = load_shared<Vec<float, 4>>(other(tile, n));
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[i] += ds[n][i];
        store_shared(other(tile, n), sums);
      }
    }
  }
  template <class Scores>
  KILN_DEVICE void store(const Scores& scores, const BlockOfSharers& block, const SeenTiles& seen,
                         i64 biases) const {
    const i64 queries = scores.sight.queries, keys = scores.sight.keys;
    const i64 which =
        (i64(block.group) * Tile::side + RowsOfWarp<Tile>::side()) * biases + block.bias;
    const int key = block.first_row + RowsOfWarp<Tile>::thread_row();
    float* to = partials + which * queries * keys + key;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int n = 0; n < deep; ++n) {
        Vec<float, 4> sums;
        if (tile >= Tile::in_registers)
          sums = load_shared<Vec<float, 4>>(other(tile, n));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int query = Tile::row_of(seen, tile) + 8 * n + lane_column() + i % 2;
          if (query < queries && key + i / 2 * 8 < keys)
            store_global(to + query * keys + i / 2 * 8,
                         tile < Tile::in_registers ? of[tile][n][i] : sums[i]);
        }
      }
  }
};

/// Gradients of queries beside those of keys, where a kernel has both
/// (attention_shared_bias_all.cuh).
struct NoQueryGradients {
  static KILN_DEVICE int count(int tiles) { return tiles; } // that are walked over
  KILN_DEVICE void begin(u32, const char*) {}
  template <int steps> KILN_DEVICE void keep(const u32 (&)[steps][4], int) {}
  KILN_DEVICE void finish(int) {}
  KILN_DEVICE void end() {}
};

/// Where one kernel has all queries: gradients of keys and values are whole at the end of a head.
struct WholeKeys {
  enum : bool { resumes = false, leaves = false }; // no objects, whose names a kernel would carry
};
/// `work(number)` for each number from `first` to `end` - 1, which its text knows: what is indexed
/// by it stays in registers.
template <int first, int end, class Work> KILN_DEVICE void for_numbers(const Work& work) {
  if constexpr (first < end) {
    work(first);
    for_numbers<first + 1, end>(work);
  }
}

/// What a warpgroup does with one head: the gradients of its 64 keys, over the scale, and values.
/// Where there are `sums`, the walk is over their tiles.
template <class Tile, class Memory, class Scores, class Start, class Turn, class Sums,
          class Queries>
KILN_DEVICE void
differentiate_keys_of_head(float (&dk)[Tile::width / 8][4], float (&dv)[Tile::value_width / 8][4],
                           const Memory& at, int side, StagePhase<Tile::stages>& now,
                           const char* keys, const char* values, const Start& start,
                           const Scores& scores, const OpenRows& open, const Turn& turn, Sums& sums,
                           Queries& queries) {
  using T = typename Tile::Element;
  const KeyRing<Tile> ring = at.ring(side); // of queries, and of the output's gradient
  const bool signals = thread_index() % 128 == 0;
  float s[Tile::deep][4], slopes[Tile::deep][4], dp[Tile::deep][4];
  u32 p[Tile::keys / 16][4], ds[Tile::keys / 16][4];
  int query = Tile::row_of(turn.tiles, 0); // of the tile whose scores are made
  OpenPlaces<true, Tile::deep> places;
  const auto begin = [&] {
    start.begin(s, query);
    // Sums leave no registers for what is told of the rows.
    const int offset = Sums::tiles > 0 ? anew(0) : 0;
    start_scores<Tile, Start::adds>(s, dp, ring, now, keys + offset, values + offset);
    take_places(places, scores, turn.row(), query + Tile::keys);
  };
  const auto take = [&] {
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(dp));
    make_exponents<true>(s, slopes, scores, turn.row(), turn.seen, query, open, places);
    make_transposed_gradients(dp, s, scores, at.numbers(side, now.stage), query, turn.row());
  };
  const auto accumulate = [&](int stage) {
    start_accumulated<T, typename Tile::Values>(dv, p, ring.values(stage), true);
    start_accumulated<T, typename Tile::Keys>(dk, ds, ring.keys(stage), true);
  };
  const auto finish = [&](int stage, bool is_ahead = false) {
    if (is_ahead)
      wgmma_wait<2>(); // scores of the next tile are made meanwhile
    else
      wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::width / 2]>(dk));
    pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(dv));
    if (signals)
      mbarrier_arrive(ring.keys_free(stage));
    mbarrier_arrive(ring.values_free(stage)); // each thread has read numbers
  };
  if (turn.tiles.count == 0)
    return;
  fetch_places(places, scores, turn.row(), query);
  if constexpr (Sums::tiles > 0) {
    const auto begin_tile = [&](int tile) {
      query = Tile::row_of(turn.tiles, tile);
      begin();
    };
    for_numbers<0, Sums::tiles>([&](int tile) {
      if constexpr (Sums::tiles % Tile::stages == 0)
        now.stage = tile % Tile::stages; // as it is, known when compiled
      if (!Tile::begins_ahead || tile == 0)
        begin_tile(tile);
      wgmma_wait<0>();
      take();
      round_probabilities<T>(p, s);
      round_probabilities<T>(ds, dp);
      const int stage = now.stage;
      accumulate(stage);
      sums.add(dp, tile); // beside these products
      queries.keep(ds, tile);
      now.advance();
      const bool is_ahead = Tile::begins_ahead && tile + 1 < Sums::tiles;
      if (is_ahead)
        begin_tile(tile + 1);
      finish(stage, is_ahead);
      queries.finish(tile);
    });
    return;
  }
  begin();
  wgmma_wait<0>();
  take();
  round_probabilities<T>(p, s);
  round_probabilities<T>(ds, dp);
  now.advance();
#pragma unroll 1
  for (int tile = 1; tile < turn.tiles.count; ++tile) {
    query += Tile::keys;
    begin();
    accumulate(now.before());
    wgmma_wait<2>();
    take();
    finish(now.before());
    round_probabilities<T>(p, s);
    round_probabilities<T>(ds, dp);
    now.advance();
  }
  accumulate(now.before());
  finish(now.before());
}

/// In the memory `at`. `bias_box`: rows of the bias's map. `sums`: BiasSums of a SharedBiasSumTile,
/// where the gradient of the bias is summed too. `queries`: QueryGradients, where there are those
/// of queries. `parts`: WholeKeys or KeysInParts.
template <class BiasElement, int groups, int loading, int working, int bias_box, class Tile,
          class Memory, class Scores, class Bias, class Lse, class Delta, class KeyGradient,
          class ValueGradient, class Sums, class Queries, class Parts = WholeKeys>
KILN_DEVICE void
differentiate_keys_in(Tile tile, const Memory& at, const Scores& scores, i64 biases, i64 sharing,
                      const MappedHeads& query, const MappedHeads& key, const MappedHeads& value,
                      const MappedHeads& gradient, const Bias& bias, const Lse& lse,
                      const Delta& delta, const KeyGradient& key_gradient,
                      const ValueGradient& value_gradient, Sums sums, Queries queries,
                      const Parts& parts = Parts()) {
  const int end = int(scores.sight.keys);
  const BlockOfSharers block(tile, scores, block_index(), biases, sharing, groups);
  SeenTiles tiles = tiles_of<Tile>(scores, block);
  tiles.count = Queries::count(tiles.count);
  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias, bias_box>(to, full, block.bias, first_walked<Tile>(),
                                                       block.first_row);
  };
  if (has_loaded_sharers<loading>(tile, at, scores, block, tiles,
                                  Loads<OwnPair<Tile>, NumbersOfRows<Lse, Delta>>{
                                      {key, value}, query, gradient, {lse, delta}},
                                  fetch_bias))
    return;
  const auto differentiate = [&](const auto& turn, u32 head, const OpenRows& open, const char* own,
                                 u64* own_free, int side, StagePhase<Tile::stages>& now,
                                 const auto& start) KILN_INLINE {
    float dk[Tile::width / 8][4] = {}, dv[Tile::value_width / 8][4] = {};
    const int group_row = turn.group_row();
    if constexpr (Parts::resumes)
      parts.resume(dk, dv, head, block.first_row);
    queries.begin(head, own);
    differentiate_keys_of_head<Tile>(
        dk, dv, at, side, now, own + group_row * Tile::Queries::swizzle,
        own + Tile::Queries::bytes + group_row * Tile::Gradients::swizzle, start, scores.of(head),
        open, turn, sums, queries);
    queries.end();
    if (thread_index() % 128 == 0)
      mbarrier_arrive(own_free);
    if constexpr (Parts::leaves) {
      parts.leave(dk, dv, head, block.first_row);
      return;
    }
    scale_gradients(dk, scores.scale);
    char* through = at.stored_by(turn.warp());
    const int left = end - turn.first_row();
    store_rows<KeyGradient::access, Tile::row_width>(
        through, dk, key_gradient.row(head, turn.first_row()), key_gradient.stride, left);
    warp_barrier();
    store_rows<ValueGradient::access, Tile::row_value_width>(
        through, dv, value_gradient.row(head, turn.first_row()), value_gradient.stride, left);
  };
  take_registers<working>();
  sums.clear(at.sums());
  take_sharers<HeldBiasOfKeys<Tile, BiasElement>, working>(tile, at, scores, block, tiles,
                                                           differentiate);
  sums.store(scores, block, tiles, biases);
  if constexpr (Tile::cluster > 1)
    meet_blocks<Tile>(); // nobody reaches a block that has ended
}

/// Where there are no gradients of queries.
template <class BiasElement, int groups, int loading, int working, int bias_box, class Tile,
          class Scores, class Bias, class Lse, class Delta, class KeyGradient, class ValueGradient,
          class Sums = NoBiasSums>
KILN_DEVICE void
differentiate_keys_sharing(Tile tile, char* memory, const Scores& scores, i64 biases, i64 sharing,
                           const MappedHeads& query, const MappedHeads& key,
                           const MappedHeads& value, const MappedHeads& gradient, const Bias& bias,
                           const Lse& lse, const Delta& delta, const KeyGradient& key_gradient,
                           const ValueGradient& value_gradient, Sums sums = Sums()) {
  const SharedBiasMemory<Tile, shared_bias_key_store<Tile, typename KeyGradient::Element,
                                                     typename ValueGradient::Element>()>
      at{memory};
  differentiate_keys_in<BiasElement, groups, loading, working, bias_box>(
      tile, at, scores, biases, sharing, query, key, value, gradient, bias, lse, delta,
      key_gradient, value_gradient, sums, NoQueryGradients());
}
} // namespace kiln
