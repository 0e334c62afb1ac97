// Attention: for each query the softmax of its scores times the values, tile by tile of keys, with
// the largest exponent so far (Milakov, Gimelshein 2018; Dao et al., FlashAttention, 2022). A block
// has a tile of the queries of one head, 16 a warp; keys and values pass through stages of shared
// memory. Products are those of warps (mma.cuh).
#pragma once

#include "attention_epilogue.cuh"
#include "attention_places.cuh"
#include "attention_seen.cuh"
#include "attention_softmax.cuh"

namespace kiln {

/// `queries` and `keys`: of a tile. `width`: of queries and keys, `value_width`: of values.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages_>
struct AttentionTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_, stages = stages_;
  static constexpr int warps = queries / 16, threads = 32 * warps;
  static constexpr int wide = (value_width + 7) / 8; // accumulators of an output
  static constexpr int deep = keys / 8;              // of a row of scores
  static_assert(queries % 16 == 0 && threads <= 1024, "a warp has 16 queries");
  static_assert(keys % 16 == 0, "products take keys by 16");

  using Element = T;
  using Queries = MatrixTile<T, queries, width>;
  using Keys = MatrixTile<T, keys, width>;
  using Values = MatrixTile<T, keys, value_width>;
};
template <class Tile> KILN_DEVICE constexpr int stage_bytes() {
  return Tile::Keys::bytes + Tile::Values::bytes;
}
/// Shared memory of attend(): its queries, then a stage after the other.
template <class Tile, class Out> KILN_DEVICE constexpr int attend_bytes() {
  constexpr int all = Tile::Queries::bytes + Tile::stages * stage_bytes<Tile>();
  constexpr int stored = Tile::warps * store_bytes<Out, Tile::value_width>();
  return all > stored ? all : stored;
}

/// The head and the tile of rows that a block works on. Later tiles of a head, which see most keys
/// where attention is causal, begin first.
struct BlockOfRows {
  u32 head;
  int first, end; // rows; those from `end` on do not exist

  KILN_DEVICE BlockOfRows(i64 rows, int tile) {
    const i64 tiles = (rows + tile - 1) / tile, block = block_index();
    head = u32(block / tiles);
    first = int(tiles - 1 - block % tiles) * tile;
    end = int(rows);
  }
  KILN_DEVICE BlockOfRows(u32 head, int first, int end) : head(head), first(first), end(end) {}
  /// Whether any of the thread's warp's 16 rows exists: else the warp only helps to fetch.
  KILN_DEVICE bool has_rows_of_warp() const { return first + thread_index() / 32 * 16 < end; }
};

/// Lane l has rows l / 4 and l / 4 + 8 of its warp's 16, and of 8 columns 2 (l % 4) and the next.
KILN_DEVICE int lane_row() {
  return thread_index() / 32 * 16 + thread_index() % 32 / 4;
}
KILN_DEVICE int lane_column() {
  return thread_index() % 4 * 2;
}
/// Which of `count` keys of a head are open to all queries, a bit each: all where masks are of
/// queries too, which places then tell one by one.
template <int count> struct OpenKeys {
  static constexpr int words = (count + 31) / 32;
  u32 bits[words];
  bool all;
  /// Key `i` of the n-th eight.
  KILN_DEVICE bool has(int n, int i) const { return (bits[n / 4] >> (n % 4 * 8 + i) & 1) != 0; }
};
/// What a mask of keys says of a lane's own: of each 32 keys one. It is read a tile ahead, since it
/// comes from far.
template <int count> struct LaneOfMask {
  bool hides[OpenKeys<count>::words];
};
/// Of the keys from `first` on. Lanes of the warp look at them side by side.
template <int count, class Scores>
KILN_DEVICE LaneOfMask<count> read_mask(const Scores& scores, int first) {
  LaneOfMask<count> lane;
#pragma unroll
  for (int word = 0; word < OpenKeys<count>::words; ++word) {
    const int key = first + 32 * word + thread_index() % 32;
    lane.hides[word] = Scores::masks_keys && key < scores.all.sight.keys && scores.hides(key);
  }
  return lane;
}
template <int count, class Scores>
KILN_DEVICE OpenKeys<count> open_keys(const Scores& scores, const LaneOfMask<count>& lane) {
  OpenKeys<count> open;
  open.all = true;
#pragma unroll
  for (int word = 0; word < OpenKeys<count>::words; ++word) {
    open.bits[word] = ~0u;
    if (Scores::masks_keys) {
      open.bits[word] = lanes_that(!lane.hides[word]);
      open.all &= open.bits[word] == ~0u;
    }
  }
  return open;
}

/// The same where the rows of a thread are keys, row and row + 8.
struct OpenRows {
  bool rows[2];
  bool all; // known to be of the whole warp
};
template <class Scores> KILN_DEVICE OpenRows open_rows(const Scores& scores, int row) {
  OpenRows open;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int key = row + 8 * r;
    open.rows[r] = !(Scores::masks_keys && key < scores.all.sight.keys && scores.hides(key));
  }
  open.all = !Scores::masks_keys;
  return open;
}

/// Hides columns that are keys, or rows that are.
template <int deep>
KILN_DEVICE void hide_masked(float (&x)[deep][4], const OpenKeys<8 * deep>& open) {
  if (open.all)
    return;
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!open.has(n, lane_column() + i % 2))
        x[n][i] = -infinity();
}
template <int deep> KILN_DEVICE void hide_masked(float (&x)[deep][4], const OpenRows& open) {
  if (open.all)
    return;
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!open.rows[i / 2])
        x[n][i] = -infinity();
}

/// Makes exponents of products; hidden places become -inf. `slopes`: of each score by the scaled
/// product. Lane's rows are row and row + 8 of queries, or of keys where scores are `transposed`;
/// `seen` tells what they see of the others (TwoSpans, SeenByBlock), of which the columns are those
/// from `first` on, a multiple of how many they are. `Scores`: HeadScores. `open`: OpenKeys of
/// columns that are keys, OpenRows of rows that are; `places`: of masks of both.
template <bool transposed, int deep, class Scores, class Seen, class Open>
KILN_DEVICE void make_exponents(float (&x)[deep][4], float (&slopes)[deep][4], const Scores& scores,
                                int row, const Seen& seen, int first, const Open& open,
                                const OpenPlaces<transposed, deep>& places) {
  // Rows that do not exist may compute what they like, but must not read.
  const bool reads_rows = Scores::has_bias;
  const int last = first + 8 * deep;
  const i64 others = transposed ? scores.all.sight.queries : scores.all.sight.keys;
  const bool sees_all = !reads_rows && scores.all.sight.sees_all();
  const bool whole =
      sees_all ? others % (8 * deep) == 0 || last <= others : seen.covers(first, last);
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[n][i] = scores.all.exponent(x[n][i], slopes[n][i]);
  if (whole) {
#pragma unroll
    for (int n = 0; n < deep; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int own = row + r * 8, other = first + 8 * n + lane_column();
        float &one = x[n][2 * r], &next = x[n][2 * r + 1];
        if constexpr (Scores::has_bias && transposed) { // else not even 0 is added
          one += scores.added(other, own);
          next += scores.added(other + 1, own);
        } else if constexpr (Scores::has_bias) {
          const auto added = scores.added_to_two(own, other);
          one += added[0];
          next += added[1];
        }
      }
  } else {
    const auto spans = seen.spans();
#pragma unroll
    for (int n = 0; n < deep; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int own = row + i / 2 * 8, other = first + 8 * n + lane_column() + i % 2;
        const int query = transposed ? other : own, key = transposed ? own : other;
        if (sees_all ? other < others : spans[i / 2].has(other))
          x[n][i] += scores.added(query, key);
        else
          x[n][i] = -infinity();
      }
  }
  if constexpr (Scores::masks_keys)
    hide_masked(x, open);
  if constexpr (Scores::masks_places)
    places.hide(x);
}

/// Divides by the sums and stores the 16 rows of a warp from `first` on, what becomes of the output
/// (attention_epilogue.cuh) through the warp's `own` memory.
template <int width, bool has_bias, int wide, class Output, class Lse, class Thread = ThisThread>
KILN_DEVICE void finish_rows(char* own, const RunningSoftmax<has_bias>& softmax,
                             float (&sums)[wide][4], float factor, u32 head, int first, int end,
                             const Output& output, const Lse& lse, const Thread& thread = {}) {
  float logs[2];
  softmax.finish(sums, factor, logs);
  const int row = first + thread.index() % 32 / 4;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (thread.index() % 4 == 0 && row + 8 * r < end)
      store_global(lse.row(head, row + 8 * r), logs[r]);
  store_result<width>(own, sums, output, head, first, end, thread);
}
/// The part of memory that a warp stores rows through.
template <class Out, int width> KILN_DEVICE char* own_part(char* memory, int warp) {
  return memory + warp * store_bytes<Out, width>();
}

/// Tiles of two tensors' rows that pass through stages side by side: keys and values, or queries
/// and gradients of outputs.
template <class First, class Second, int stages, int threads> struct StagedRows {
  char* memory;
  static constexpr int bytes = First::bytes + Second::bytes;

  KILN_DEVICE First first(int tile) const { return First(memory + tile % stages * bytes); }
  KILN_DEVICE Second second(int tile) const {
    return Second(memory + tile % stages * bytes + First::bytes);
  }
  /// Starts to fetch a tile of both, from `row` on, and ends a group of copies: an empty one where
  /// there is no such row.
  template <class RowsA, class RowsB>
  KILN_DEVICE void fetch(int tile, const RowsA& a, u32 head, const RowsB& b, u32 other_head,
                         int row, int end) const {
    if (row < end) {
      first(tile).template fetch<RowsA::access, threads>(a.row(head, row), a.stride, end - row);
      second(tile).template fetch<RowsB::access, threads>(b.row(other_head, row), b.stride,
                                                          end - row);
    }
    end_copies();
  }
};

template <class Tile, class Scores, class Query, class Key, class Value, class Output, class Lse>
KILN_DEVICE void attend(Tile, char* memory, const Scores& scores, const Query& query,
                        const Key& key, const Value& value, const Output& output, const Lse& lse) {
  const BlockOfRows at(scores.sight.queries, Tile::queries);
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::keys>(scores.sight, at.first, at.end,
                                                                scores.sight.keys, keys_of);

  const typename Tile::Queries queries(memory);
  const StagedRows<typename Tile::Keys, typename Tile::Values, Tile::stages, Tile::threads> staged{
      memory + Tile::Queries::bytes};
  const auto fetch = [&](int tile) {
    staged.fetch(tile, key, at.head, value, at.head, tiles.first + tile * Tile::keys,
                 tiles.span.end);
  };
  queries.template fetch<Query::access, Tile::threads>(query.row(at.head, at.first), query.stride,
                                                       at.end - at.first);
#pragma unroll
  for (int tile = 0; tile < Tile::stages; ++tile)
    fetch(tile);

  const int row = at.first + lane_row();
  const TwoSpans seen = seen_by_two(row, at.end, keys_of);
  const auto of_head = scores.of(at.head);
  RunningSoftmax<Scores::has_bias> softmax;
  float sums[Tile::wide][4] = {}, scaled[2];
  OpenPlaces<false, Tile::deep> places;
  fetch_places(places, of_head, row, tiles.first);
#pragma unroll 1
  for (int tile = 0; tile < tiles.count; ++tile) {
    wait_for_copies_but<Tile::stages - 1>();
    block_barrier();
    if (at.has_rows_of_warp()) {
      float p[Tile::deep][4] = {}, slopes[Tile::deep][4];
      const int from = tiles.first + tile * Tile::keys;
      const auto open = open_keys(of_head, read_mask<Tile::keys>(of_head, from));
      take_places(places, of_head, row, from + Tile::keys);
      multiply_rows(p, queries, thread_index() / 32 * 16, staged.first(tile));
      make_exponents<false>(p, slopes, of_head, row, seen, from, open, places);
      if (softmax.template take<powers_slack<Scores>>(p, scores.factor(), scaled))
        scale_rows(sums, scaled);
      drop(p, of_head, row, from);
      multiply_accumulated(sums, p, staged.second(tile));
    }
    block_barrier();
    fetch(tile + Tile::stages);
  }
  wait_for_copies();
  block_barrier();

  const int warp = thread_index() / 32;
  finish_rows<Tile::value_width>(
      own_part<typename Output::Element, Tile::value_width>(memory, warp), softmax, sums,
      scores.factor(), at.head, at.first + 16 * warp, at.end, output, lse);
}

} // namespace kiln
