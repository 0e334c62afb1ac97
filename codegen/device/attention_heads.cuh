// Attention of heads of which a block has all keys and values, as rows of few columns have: they
// are brought once, and warps walk over them without waiting for each other, each with its queries
// in registers. Products are those of warps. Source: Dao et al., FlashAttention (2022),
// algorithm 1.
#pragma once

#include "attention.cuh"
#include "matrix_rows.cuh"

namespace kiln {

/// `queries`: of a block. `keys`: no fewer than a head has, of which a warp takes scores of `step`
/// at once.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages>
struct HeadTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_;
  static constexpr int own = queries % 32 == 0 ? 2 : 1; // times 16 queries, which a warp has
  static constexpr int warps = queries / (16 * own), threads = 32 * warps;
  // More at once would take registers of warps that hide each other's waits.
  static constexpr int step = 16;
  static constexpr int wide = (value_width + 7) / 8, deep = step / 8;
  static_assert(queries % 16 == 0 && threads <= 1024, "products take queries by 16");
  static_assert(keys % step == 0, "keys are whole steps");

  using Element = T;
  using Queries = MatrixTile<T, queries, width>;
  using Keys = MatrixTile<T, keys, width>;
  using Values = MatrixTile<T, keys, value_width>;
};
template <class Tile, class Out> KILN_DEVICE constexpr int attend_heads_bytes() {
  constexpr int all = Tile::Queries::bytes + Tile::Keys::bytes + Tile::Values::bytes;
  constexpr int stored = Tile::warps * store_bytes<Out, Tile::value_width>();
  return all > stored ? all : stored;
}

/// Whether a mask of keys leaves all of them open.
template <int keys, class Scores> KILN_DEVICE bool opens_all(const Scores& scores) {
  bool hides = false;
  if constexpr (Scores::masks_keys)
#pragma unroll
    for (int i = 0; i < keys; i += 32)
      if (const int key = i + thread_index() % 32; key < scores.all.sight.keys)
        hides |= scores.hides(key);
  return !any_lane(hides);
}

/// What a warp has of its queries.
template <class Tile, bool has_bias> struct QueriesOfWarp {
  typename Operands<typename Tile::Element>::A queries[Tile::own][Tile::Queries::steps];
  float sums[Tile::own][Tile::wide][4];
  RunningSoftmax<has_bias> softmax[Tile::own];
  TwoSpans seen[Tile::own];
  int row; // the lane's first among all
};

/// Takes the `step` keys from `first` on. `keys` and `values`: the lane's places in all of them.
template <class Tile, class Scores>
KILN_DEVICE void attend_step(QueriesOfWarp<Tile, Scores::has_bias>& own, const Scores& scores,
                             int first, bool opens_all, const typename Tile::Element* keys,
                             const typename Tile::Element* values) {
  float p[Tile::own][Tile::deep][4] = {};
  OpenPlaces<false, Tile::deep> places[Tile::own];
#pragma unroll
  for (int j = 0; j < Tile::own; ++j)
    fetch_places(places[j], scores, own.row + 16 * j, first);
  multiply_loaded<typename Tile::Keys>(p, own.queries, keys + first * Tile::Keys::pitch);
  OpenKeys<Tile::step> open;
  open.all = true;
  if (!opens_all)
    open = open_keys(scores, read_mask<Tile::step>(scores, first));
#pragma unroll
  for (int j = 0; j < Tile::own; ++j) {
    float slopes[Tile::deep][4], scaled[2];
    take_places(places[j], scores);
    make_exponents<false>(p[j], slopes, scores, own.row + 16 * j, own.seen[j], first, open,
                          places[j]);
    if (own.softmax[j].template take<powers_slack<Scores>>(p[j], scores.all.factor(), scaled))
      scale_rows(own.sums[j], scaled);
    drop(p[j], scores, own.row + 16 * j, first);
  }
  multiply_all<typename Tile::Values>(own.sums, p, values + first * Tile::Values::pitch);
}

template <class Tile, class Scores, class Query, class Key, class Value, class Output, class Lse>
KILN_DEVICE void attend_heads(Tile, char* memory, const Scores& scores, const Query& query,
                              const Key& key, const Value& value, const Output& output,
                              const Lse& lse) {
  using T = typename Tile::Element;
  const BlockOfRows at(scores.sight.queries, Tile::queries);
  const typename Tile::Queries queries(memory);
  const typename Tile::Keys keys(memory + Tile::Queries::bytes);
  const typename Tile::Values values(memory + Tile::Queries::bytes + Tile::Keys::bytes);
  const int all_keys = int(scores.sight.keys);
  queries.template fetch<Query::access, Tile::threads>(query.row(at.head, at.first), query.stride,
                                                       at.end - at.first);
  keys.template fetch<Key::access, Tile::threads>(key.row(at.head, 0), key.stride, all_keys);
  values.template fetch<Value::access, Tile::threads>(value.row(at.head, 0), value.stride,
                                                      all_keys);
  end_copies();

  const int warp_row = thread_index() / 32 * 16 * Tile::own;
  const auto of_head = scores.of(at.head);
  const bool opens = opens_all<Tile::keys>(of_head); // from afar, while the rest is on its way
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::step>(scores.sight, at.first, at.end,
                                                                scores.sight.keys, keys_of);
  QueriesOfWarp<Tile, Scores::has_bias> own = {};
  own.row = at.first + warp_row + thread_index() % 32 / 4;
#pragma unroll
  for (int j = 0; j < Tile::own; ++j)
    own.seen[j] = seen_by_two(own.row + 16 * j, at.end, keys_of);
  wait_for_copies();
  block_barrier();
  load_rows(own.queries, queries, warp_row);
  const auto key_places = LanePlaces<typename Tile::Keys>::of_lane();
  const auto value_places = LanePlaces<typename Tile::Values>::of_lane();
  const T* from = key_places.columns_at(keys, 0);
  const T* other = value_places.rows_at(values, 0);
  if (at.first + warp_row < at.end)
#pragma unroll 1
    for (int i = 0; i < tiles.count; ++i)
      attend_step<Tile>(own, of_head, tiles.first + i * Tile::step, opens, from, other);
  block_barrier(); // rows are stored through memory that others may read
#pragma unroll
  for (int j = 0; j < Tile::own; ++j) {
    finish_rows<Tile::value_width>(
        own_part<typename Output::Element, Tile::value_width>(memory, thread_index() / 32),
        own.softmax[j], own.sums[j], scores.factor(), at.head, at.first + warp_row + 16 * j, at.end,
        output, lse);
    warp_barrier(); // the next rows are stored through the same memory
  }
}

} // namespace kiln
