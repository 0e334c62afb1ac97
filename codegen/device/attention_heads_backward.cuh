// All gradients of heads of which a block has all keys, as rows of few columns have: scores and
// what follows from them are computed once. A warp has 16 keys and walks over queries; what it
// makes of their scores' gradients goes through shared memory, where warps then take 16 queries
// each. Products are those of warps. Source: Dao et al., FlashAttention (2022), algorithm 4.
#pragma once

#include "attention_backward.cuh"
#include "matrix_rows.cuh"

namespace kiln {

/// `keys`: no fewer than a head has. A block takes `queries` queries at a time, and scores of
/// `step` of these.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages>
struct HeadGradientTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_;
  static constexpr int own = keys % 32 == 0 ? 2 : 1; // times 16 keys, which a warp has
  static constexpr int step = own == 1 && queries % 32 == 0 ? 32 : 16;
  static constexpr int warps = keys / (16 * own), threads = 32 * warps;
  static constexpr int deep = step / 8;
  static constexpr int wide_keys = (width + 7) / 8, wide_values = (value_width + 7) / 8;
  static constexpr bool has_keys = true, has_values = true;
  static_assert(keys % 16 == 0 && threads <= 1024, "products take keys by 16");
  static_assert(queries % (16 * own) == 0, "warps take as many queries as keys");

  using Element = T;
  using Keys = MatrixTile<T, keys, width>;
  using Values = MatrixTile<T, keys, value_width>;
  using Queries = MatrixTile<T, queries, width>;
  using Gradients = MatrixTile<T, queries, value_width>;
  using Slopes = MatrixTile<T, keys, queries>; // gradients of scores
};

/// What a block keeps in shared memory: keys, values, then queries and the output's gradient, in
/// whose place warps store rows, then gradients of scores, and numbers of queries.
template <class Tile, class OutQ, class OutK, class OutV> struct HeadGradientMemory {
  static constexpr int keys_store =
      larger_store_bytes<OutK, Tile::width, OutV, Tile::value_width>();
  static constexpr int store = store_bytes<OutQ, Tile::width>() > keys_store
                                   ? store_bytes<OutQ, Tile::width>()
                                   : keys_store;
  static constexpr int rows = Tile::Queries::bytes + Tile::Gradients::bytes;
  static constexpr int rows_at = Tile::Keys::bytes + Tile::Values::bytes;
  static constexpr int slopes_at =
      rows_at + (rows > Tile::warps * store ? rows : Tile::warps * store);
  static constexpr int numbers_at = slopes_at + Tile::Slopes::bytes;
  static constexpr int bytes = numbers_at + Tile::queries * int(sizeof(QueryNumbers));
  char* memory;

  KILN_DEVICE auto keys() const { return typename Tile::Keys(memory); }
  KILN_DEVICE auto values() const { return typename Tile::Values(memory + Tile::Keys::bytes); }
  KILN_DEVICE auto queries() const { return typename Tile::Queries(memory + rows_at); }
  KILN_DEVICE auto gradients() const {
    return typename Tile::Gradients(memory + rows_at + Tile::Queries::bytes);
  }
  KILN_DEVICE auto slopes() const { return typename Tile::Slopes(memory + slopes_at); }
  KILN_DEVICE QueryNumbers* numbers() const {
    return reinterpret_cast<QueryNumbers*>(memory + numbers_at);
  }
  KILN_DEVICE char* stored_by(int warp) const { return memory + rows_at + warp * store; }
};
template <class Tile, class OutQ, class OutK, class OutV>
KILN_DEVICE constexpr int head_gradient_bytes() {
  return HeadGradientMemory<Tile, OutQ, OutK, OutV>::bytes;
}

/// Of the warp's own rows, in its block's tiles.
template <class Tile> KILN_DEVICE int warp_row() {
  return thread_index() / 32 * 16 * Tile::own;
}

/// What a warp has of its keys for all heads of queries that share them.
template <class Tile> struct KeysOfWarp {
  using Operand = Operands<typename Tile::Element>;
  typename Operand::A keys[Tile::own][Tile::Keys::steps];
  typename Operand::A values[Tile::own][Tile::Values::steps];
  float dk[Tile::own][Tile::wide_keys][4], dv[Tile::own][Tile::wide_values][4];
  OpenRows open[Tile::own]; // of the head at hand
  // Places in the first rows of tiles, in elements.
  LanePlaces<typename Tile::Queries> queries = LanePlaces<typename Tile::Queries>::of_lane();
  LanePlaces<typename Tile::Gradients> gradients = LanePlaces<typename Tile::Gradients>::of_lane();
  int slopes = anew(row(0) * Tile::Slopes::pitch + lane_column());

  /// The lane's first row of the j-th 16.
  KILN_DEVICE int row(int j) const { return warp_row<Tile>() + 16 * j + thread_index() % 32 / 4; }
  KILN_DEVICE void load(const typename Tile::Keys& from, const typename Tile::Values& other) {
    load_rows(keys, from, warp_row<Tile>());
    load_rows(values, other, warp_row<Tile>());
  }
  template <class Scores> KILN_DEVICE void look_at(const Scores& scores) {
#pragma unroll
    for (int j = 0; j < Tile::own; ++j) {
      open[j] = open_rows(scores, row(j));
      open[j].all = all_lanes(open[j].rows[0] && open[j].rows[1]);
    }
  }
};

/// Keeps gradients of scores where other warps find them, `to` from the lane's place on: of keys
/// that do not exist, of which `row` is the first of the lane's and `end` that of all, zeros.
template <class Tile>
KILN_DEVICE void keep_slopes(float (&ds)[Tile::deep][4], typename Tile::Element* to, int row,
                             int end) {
  if (row - thread_index() % 32 / 4 + 16 > end) // known to be the same in the warp
#pragma unroll
    for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (row + i / 2 * 8 >= end)
          ds[n][i] = 0.0f;
#pragma unroll
  for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Vec<float, 2> pair = {{ds[n][2 * r], ds[n][2 * r + 1]}};
      store_shared(to + 8 * r * Tile::Slopes::pitch + 8 * n, convert<typename Tile::Element>(pair));
    }
}

/// Adds what the `step` queries from `first` of the tile give a warp's keys, of which there are
/// `end`, and keeps the gradients of their scores; `query`: the first's number among all.
template <class Tile, class Memory, class Scores>
KILN_DEVICE void differentiate_step(KeysOfWarp<Tile>& own, const Memory& at, const Scores& scores,
                                    int first, int query, int end) {
  using Queries = typename Tile::Queries;
  using Gradients = typename Tile::Gradients;
  const int from = first * Queries::pitch, other = first * Gradients::pitch;
  float p[Tile::own][Tile::deep][4] = {}, ds[Tile::own][Tile::deep][4] = {};
  OpenPlaces<true, Tile::deep> places[Tile::own];
#pragma unroll
  for (int j = 0; j < Tile::own; ++j)
    fetch_places(places[j], scores, own.row(j), query);
  multiply_loaded<Queries>(p, own.keys, own.queries.columns_at(at.queries(), from));
  multiply_loaded<Gradients>(ds, own.values, own.gradients.columns_at(at.gradients(), other));
#pragma unroll
  for (int j = 0; j < Tile::own; ++j) {
    float slopes[Tile::deep][4];
    const TwoSpans seen =
        seen_by_two(own.row(j), end, [&](int key) { return scores.all.sight.queries_of(key); });
    take_places(places[j], scores);
    make_exponents<true>(p[j], slopes, scores, own.row(j), seen, query, own.open[j], places[j]);
    make_transposed_gradients(ds[j], p[j], scores, at.numbers() + first, query, own.row(j));
  }
  multiply_all<Gradients>(own.dv, p, own.gradients.rows_at(at.gradients(), other));
#pragma unroll
  for (int j = 0; j < Tile::own; ++j)
    keep_slopes<Tile>(ds[j], at.slopes().data + (own.slopes + 16 * j * Tile::Slopes::pitch + first),
                      own.row(j), end);
  multiply_all<Queries>(own.dk, ds, own.queries.rows_at(at.queries(), from));
}

/// Scales and stores a warp's rows, of which `count` exist, through its own part of the memory.
template <int width, int own, int wide, class Memory, class Out, class Element>
KILN_DEVICE void store_own(const Memory& at, float (&rows)[own][wide][4], float scale, Element* to,
                           const Out& out, int count) {
#pragma unroll
  for (int j = 0; j < own; ++j) {
    scale_gradients(rows[j], scale);
    store_rows<Out::access, width>(at.stored_by(thread_index() / 32), rows[j],
                                   to + 16 * j * out.stride, out.stride, count - 16 * j);
    warp_barrier(); // the next rows are stored through the same memory
  }
}

/// Stores gradients of `count` queries of the tile, whose first is `to`. `keys` keys exist.
template <class Tile, class Memory, class Out, class Element>
KILN_DEVICE void finish_queries(const Memory& at, float scale, int count, int keys, const Out& out,
                                Element* to) {
#pragma unroll 1
  for (int row = warp_row<Tile>(); row < Tile::queries && row < count; row += Tile::keys) {
    float dq[Tile::own][Tile::wide_keys][4] = {};
    multiply_columns(dq, at.slopes(), row, at.keys(), keys);
    store_own<Tile::width>(at, dq, scale, to + row * out.stride, out, count - row);
  }
}

/// Each block has a head of keys, which `shared_by` heads of queries share.
template <class Tile, class Scores, class Query, class Key, class Value, class Gradient, class Lse,
          class Delta, class QueryGradient, class KeyGradient, class ValueGradient>
KILN_DEVICE void
differentiate_heads(Tile, char* memory, const Scores& scores, int shared_by, const Query& query,
                    const Key& key, const Value& value, const Gradient& gradient, const Lse& lse,
                    const Delta& delta, const QueryGradient& query_gradient,
                    const KeyGradient& key_gradient, const ValueGradient& value_gradient) {
  const HeadGradientMemory<Tile, typename QueryGradient::Element, typename KeyGradient::Element,
                           typename ValueGradient::Element>
      at{memory};
  const int all_keys = int(scores.sight.keys), all_queries = int(scores.sight.queries);
  const u32 key_head = u32(block_index());
  at.keys().template fetch<Key::access, Tile::threads>(key.row(key_head * shared_by, 0), key.stride,
                                                       all_keys);
  at.values().template fetch<Value::access, Tile::threads>(value.row(key_head * shared_by, 0),
                                                           value.stride, all_keys);
  KeysOfWarp<Tile> own = {};
  bool is_loaded = false;
#pragma unroll 1
  for (u32 head = key_head * shared_by; head < (key_head + 1) * shared_by; ++head)
#pragma unroll 1
    for (int first = 0; first < all_queries; first += Tile::queries) {
      const int count = all_queries - first;
      const int whole = (count + 16 * Tile::own - 1) / (16 * Tile::own) * (16 * Tile::own);
      block_barrier(); // what the tile before has left in shared memory is read
      at.queries().template fetch<Query::access, Tile::threads>(query.row(head, first),
                                                                query.stride, count);
      at.gradients().template fetch<Gradient::access, Tile::threads>(gradient.row(head, first),
                                                                     gradient.stride, count);
      for (int i = thread_index(); i < Tile::queries; i += Tile::threads)
        store_shared(at.numbers() + i,
                     numbers_of<Scores::has_bias>(lse, delta, head, first + i, all_queries));
      end_copies();
      const auto of_head = scores.of(head);
      own.look_at(of_head); // from afar, while the rest is on its way
      wait_for_copies();
      block_barrier();
      if (!is_loaded)
        own.load(at.keys(), at.values());
      is_loaded = true;
      if (warp_row<Tile>() < all_keys)
#pragma unroll 1
        for (int step = 0; step < Tile::queries && step < whole; step += Tile::step)
          differentiate_step<Tile>(own, at, of_head, step, first + step, all_keys);
      block_barrier();
      finish_queries<Tile>(at, scores.scale, count, all_keys, query_gradient,
                           query_gradient.row(head, first));
    }
  wait_for_copies(); // of keys, where there are no queries
  block_barrier();

  const int row = warp_row<Tile>();
  store_own<Tile::width>(at, own.dk, scores.scale, key_gradient.row(key_head, row), key_gradient,
                         all_keys - row);
  store_own<Tile::value_width>(at, own.dv, 1.0f, value_gradient.row(key_head, row), value_gradient,
                               all_keys - row);
}

} // namespace kiln
