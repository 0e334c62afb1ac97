// The backward of attention computes its scores again: probabilities are 2^(exponent - lse). Each
// gradient has kernels of its own, in which whoever stores a value has added it up, so that results
// are bitwise the same from run to run: a block has a tile of keys and walks over the queries that
// see them (keys, values), or a tile of queries and walks over keys (queries); the bias:
// attention_bias_gradient.cuh. Products are those of warps.
// Source: Dao et al., FlashAttention (2022), algorithm 4, without its atomic additions.
#pragma once

#include "attention.cuh"

namespace kiln {

/// What a score's gradient takes of each query, fp32: lse to the base of two, +inf where every
/// probability is 0, and delta. It is 0 where no place is open; and with a bias, where the row is
/// as good as hidden, by numbers as -1e9: exponents that large are rounded by so much that what is
/// left of a probability is noise, or beyond all numbers.
struct QueryNumbers {
  float lse, delta;
};
template <bool has_bias, class Lse, class Delta>
KILN_DEVICE QueryNumbers numbers_of(const Lse& lse, const Delta& delta, u32 head, int query,
                                    int end) {
  if (query >= end)
    return {infinity(), 0.0f};
  const float natural = load_global<float>(lse.row(head, query));
  const bool is_hidden = has_bias ? fmaxf(natural, -natural) >= 0x1p25f : natural == -infinity();
  return {is_hidden ? infinity() : natural * log2_e, load_global<float>(delta.row(head, query))};
}

/// Shared memory that a warp of `Tile` takes to store rows of two widths.
template <class OutA, int width_a, class OutB, int width_b>
KILN_DEVICE constexpr int larger_store_bytes() {
  return store_bytes<OutA, width_a>() > store_bytes<OutB, width_b>() ? store_bytes<OutA, width_a>()
                                                                     : store_bytes<OutB, width_b>();
}

/// Multiplies gradients of queries or keys by the scale of scores.
template <int wide> KILN_DEVICE void scale_gradients(float (&values)[wide][4], float scale) {
  const float both[2] = {scale, scale};
  scale_rows(values, both);
}

//===- Keys and values ----------------------------------------------------------------------===//

/// A block has `keys` keys, 16 a warp, and takes `queries` queries at a time.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages_,
          bool has_keys_, bool has_values_>
struct KeyGradientTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_, stages = stages_;
  static constexpr bool has_keys = has_keys_, has_values = has_values_;
  static constexpr int warps = keys / 16, threads = 32 * warps;
  static constexpr int deep = queries / 8;
  static constexpr int wide_keys = (width + 7) / 8, wide_values = (value_width + 7) / 8;
  static_assert(keys % 16 == 0 && queries % 16 == 0 && threads <= 1024, "a warp has 16 keys");

  using Element = T;
  using Keys = MatrixTile<T, keys, width>;
  using Values = MatrixTile<T, keys, value_width>;
  using Queries = MatrixTile<T, queries, width>;
  using Gradients = MatrixTile<T, queries, value_width>;
};
template <class Tile, class OutK, class OutV> KILN_DEVICE constexpr int key_gradient_bytes() {
  constexpr int all = Tile::Keys::bytes + Tile::Values::bytes +
                      Tile::stages * (Tile::Queries::bytes + Tile::Gradients::bytes +
                                      Tile::queries * int(sizeof(QueryNumbers)));
  constexpr int stored =
      Tile::warps * larger_store_bytes<OutK, Tile::width, OutV, Tile::value_width>();
  return all > stored ? all : stored;
}

/// `shared_by`: heads of queries that share one of keys. Heads of keys are counted by the grid.
template <class Tile, class Scores, class Query, class Key, class Value, class Gradient, class Lse,
          class Delta, class KeyGradient, class ValueGradient>
KILN_DEVICE void differentiate_keys(Tile, char* memory, const Scores& scores, int shared_by,
                                    const Query& query, const Key& key, const Value& value,
                                    const Gradient& gradient, const Lse& lse, const Delta& delta,
                                    const KeyGradient& key_gradient,
                                    const ValueGradient& value_gradient) {
  const BlockOfRows at(scores.sight.keys, Tile::keys);
  const auto queries_of = [&](int row) { return scores.sight.queries_of(row); };
  const SeenTiles of_one = seen_tiles<Tile::keys, Tile::queries>(scores.sight, at.first, at.end,
                                                                 scores.sight.queries, queries_of);
  const int tiles = of_one.count * shared_by; // of all heads

  const typename Tile::Keys keys(memory);
  const typename Tile::Values values(memory + Tile::Keys::bytes);
  const StagedRows<typename Tile::Queries, typename Tile::Gradients, Tile::stages, Tile::threads>
      staged{memory + Tile::Keys::bytes + Tile::Values::bytes};
  QueryNumbers* numbers =
      reinterpret_cast<QueryNumbers*>(staged.memory + Tile::stages * staged.bytes);
  const u32 first_head = at.head * shared_by;
  keys.template fetch<Key::access, Tile::threads>(key.row(first_head, at.first), key.stride,
                                                  at.end - at.first);
  values.template fetch<Value::access, Tile::threads>(value.row(first_head, at.first), value.stride,
                                                      at.end - at.first);
  const auto fetch = [&](int tile) {
    const u32 head = first_head + (tiles > 0 ? tile / of_one.count : 0);
    const int from = tiles > 0 ? of_one.first + tile % of_one.count * Tile::queries : 0;
    if (tile < tiles)
      for (int i = thread_index(); i < Tile::queries; i += Tile::threads)
        store_shared(numbers + tile % Tile::stages * Tile::queries + i,
                     numbers_of<Scores::has_bias>(lse, delta, head, from + i, of_one.span.end));
    staged.fetch(tile, query, head, gradient, head, tile < tiles ? from : of_one.span.end,
                 of_one.span.end);
  };
#pragma unroll
  for (int tile = 0; tile < Tile::stages; ++tile)
    fetch(tile);

  const int row = at.first + lane_row(), warp_row = thread_index() / 32 * 16;
  const TwoSpans seen = seen_by_two(row, at.end, queries_of);
  float dk[Tile::has_keys ? Tile::wide_keys : 1][4] = {};
  float dv[Tile::has_values ? Tile::wide_values : 1][4] = {};
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies_but<Tile::stages - 1>();
    block_barrier();
    if (at.has_rows_of_warp()) {
      const u32 head = first_head + tile / of_one.count;
      const int from = of_one.first + tile % of_one.count * Tile::queries;
      const QueryNumbers* of_tile = numbers + tile % Tile::stages * Tile::queries;
      float p[Tile::deep][4] = {}, slopes[Tile::deep][4], kept[Tile::deep][4];
      const auto of_head = scores.of(head);
      OpenPlaces<true, Tile::deep> places;
      fetch_places(places, of_head, row, from);
      multiply_rows(p, keys, warp_row, staged.first(tile));
      take_places(places, of_head);
      make_exponents<true>(p, slopes, of_head, row, seen, from, open_rows(of_head, row), places);
#pragma unroll
      for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int query_in_tile = 8 * n + lane_column() + i % 2;
          p[n][i] = exp2_approximate(fmaf(p[n][i], scores.factor(),
                                          -load_shared<QueryNumbers>(of_tile + query_in_tile).lse));
        }
      for_factors<true, Tile::deep>(of_head, row, from, [&](int n, const float(&factors)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          kept[n][i] = factors[i];
      });
      if constexpr (Tile::has_values) {
        float dropped[Tile::deep][4];
#pragma unroll
        for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            dropped[n][i] = p[n][i] * kept[n][i];
        multiply_accumulated(dv, dropped, staged.second(tile));
      }
      if constexpr (Tile::has_keys) {
        float dp[Tile::deep][4] = {};
        multiply_rows(dp, values, warp_row, staged.second(tile));
#pragma unroll
        for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float minus =
                load_shared<QueryNumbers>(of_tile + 8 * n + lane_column() + i % 2).delta;
            dp[n][i] =
                p[n][i] == 0.0f ? 0.0f : p[n][i] * (dp[n][i] * kept[n][i] - minus) * slopes[n][i];
          }
        multiply_accumulated(dk, dp, staged.first(tile));
      }
    }
    block_barrier();
    fetch(tile + Tile::stages);
  }
  wait_for_copies();
  block_barrier();

  const int left = at.end - at.first - warp_row;
  char* own = memory + thread_index() / 32 *
                           larger_store_bytes<typename KeyGradient::Element, Tile::width,
                                              typename ValueGradient::Element, Tile::value_width>();
  if constexpr (Tile::has_keys) {
    scale_gradients(dk, scores.scale);
    store_rows<KeyGradient::access, Tile::width>(
        own, dk, key_gradient.row(at.head, at.first + warp_row), key_gradient.stride, left);
    warp_barrier();
  }
  if constexpr (Tile::has_values)
    store_rows<ValueGradient::access, Tile::value_width>(
        own, dv, value_gradient.row(at.head, at.first + warp_row), value_gradient.stride, left);
}

//===- Queries ------------------------------------------------------------------------------===//

/// Makes gradients of exponents, in units of the natural logarithm, p (dp - delta), of `dp`,
/// products of the output's gradient and values, and of the exponents themselves. Lane's rows are
/// queries.
template <int deep, class Scores>
KILN_DEVICE void make_score_gradients(float (&dp)[deep][4], const float (&exponents)[deep][4],
                                      const Scores& scores, const QueryNumbers (&numbers)[2],
                                      int query, int first_key) {
  drop(dp, scores, query, first_key);
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const QueryNumbers& of_row = numbers[i / 2];
      const float power = exp2_approximate(fmaf(exponents[n][i], scores.all.factor(), -of_row.lse));
      dp[n][i] = power * (dp[n][i] - of_row.delta);
    }
}

/// Makes probabilities, dropped, of exponents, and gradients of exponents of `dp`, as
/// make_score_gradients. Lane's rows are keys; `numbers`: of the queries from `first` on.
template <int deep, class Scores>
KILN_DEVICE void make_transposed_gradients(float (&dp)[deep][4], float (&p)[deep][4],
                                           const Scores& scores, const QueryNumbers* numbers,
                                           int first, int key) {
  for_factors<true, deep>(scores, key, first, [&](int n, const float(&factors)[4]) {
    const auto of_two = load_shared<Vec<QueryNumbers, 2>>(numbers + 8 * n + lane_column());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const QueryNumbers& of_query = of_two[i % 2];
      const float power = exp2_approximate(fmaf(p[n][i], scores.all.factor(), -of_query.lse));
      p[n][i] = power * factors[i];
      dp[n][i] = power * (dp[n][i] * factors[i] - of_query.delta);
    }
  });
}

/// The gradient of each exponent of a tile, in units of the natural logarithm: p (dp - delta).
/// Lane's rows are queries; its numbers are theirs.
template <class Tile, class Scores, class Queries, class Gradients>
KILN_DEVICE void score_gradients(float (&ds)[Tile::deep][4], float (&slopes)[Tile::deep][4],
                                 const Scores& scores, int query, const TwoSpans& seen,
                                 const QueryNumbers (&numbers)[2], const Queries& queries,
                                 const Gradients& gradients, const typename Tile::Keys& keys,
                                 const typename Tile::Values& values, int first_key) {
  const int warp_row = thread_index() / 32 * 16;
  float p[Tile::deep][4] = {};
  const auto open = open_keys(scores, read_mask<Tile::keys>(scores, first_key));
  OpenPlaces<false, Tile::deep> places;
  fetch_places(places, scores, query, first_key);
  multiply_rows(p, queries, warp_row, keys);
  take_places(places, scores);
  make_exponents<false>(p, slopes, scores, query, seen, first_key, open, places);
#pragma unroll
  for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      ds[n][i] = 0.0f;
  multiply_rows(ds, gradients, warp_row, values);
  make_score_gradients(ds, p, scores, numbers, query, first_key);
}

template <class Tile, class Out> KILN_DEVICE constexpr int query_gradient_bytes() {
  constexpr int all = Tile::Queries::bytes +
                      MatrixTile<typename Tile::Element, Tile::queries, Tile::value_width>::bytes +
                      Tile::stages * stage_bytes<Tile>();
  constexpr int stored = Tile::warps * store_bytes<Out, Tile::width>();
  return all > stored ? all : stored;
}

/// The gradient of queries; `Tile`: an AttentionTile.
template <class Tile, class Scores, class Query, class Key, class Value, class Gradient, class Lse,
          class Delta, class QueryGradient>
KILN_DEVICE void differentiate_queries(Tile, char* memory, const Scores& scores, const Query& query,
                                       const Key& key, const Value& value, const Gradient& gradient,
                                       const Lse& lse, const Delta& delta,
                                       const QueryGradient& query_gradient) {
  using Out = typename QueryGradient::Element;
  using Gradients = MatrixTile<typename Tile::Element, Tile::queries, Tile::value_width>;
  const BlockOfRows at(scores.sight.queries, Tile::queries);
  const auto keys_of = [&](int row) { return scores.sight.keys_of(row); };
  const SeenTiles tiles = seen_tiles<Tile::queries, Tile::keys>(scores.sight, at.first, at.end,
                                                                scores.sight.keys, keys_of);

  const typename Tile::Queries queries(memory);
  const Gradients gradients(memory + Tile::Queries::bytes);
  const StagedRows<typename Tile::Keys, typename Tile::Values, Tile::stages, Tile::threads> staged{
      memory + Tile::Queries::bytes + Gradients::bytes};
  const auto fetch = [&](int tile) {
    staged.fetch(tile, key, at.head, value, at.head, tiles.first + tile * Tile::keys,
                 tiles.span.end);
  };
  queries.template fetch<Query::access, Tile::threads>(query.row(at.head, at.first), query.stride,
                                                       at.end - at.first);
  gradients.template fetch<Gradient::access, Tile::threads>(gradient.row(at.head, at.first),
                                                            gradient.stride, at.end - at.first);
#pragma unroll
  for (int tile = 0; tile < Tile::stages; ++tile)
    fetch(tile);

  const int row = at.first + lane_row(), warp_row = thread_index() / 32 * 16;
  const TwoSpans seen = seen_by_two(row, at.end, keys_of);
  const QueryNumbers numbers[2] = {
      numbers_of<Scores::has_bias>(lse, delta, at.head, row, at.end),
      numbers_of<Scores::has_bias>(lse, delta, at.head, row + 8, at.end)};
  const auto of_head = scores.of(at.head);
  constexpr int wide = (Tile::width + 7) / 8;
  float dq[wide][4] = {};
#pragma unroll 1
  for (int tile = 0; tile < tiles.count; ++tile) {
    wait_for_copies_but<Tile::stages - 1>();
    block_barrier();
    if (at.has_rows_of_warp()) {
      float ds[Tile::deep][4], slopes[Tile::deep][4];
      score_gradients<Tile>(ds, slopes, of_head, row, seen, numbers, queries, gradients,
                            staged.first(tile), staged.second(tile),
                            tiles.first + tile * Tile::keys);
#pragma unroll
      for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          ds[n][i] *= slopes[n][i];
      multiply_accumulated(dq, ds, staged.first(tile));
    }
    block_barrier();
    fetch(tile + Tile::stages);
  }
  wait_for_copies();
  block_barrier();

  scale_gradients(dq, scores.scale);
  store_rows<QueryGradient::access, Tile::width>(
      memory + thread_index() / 32 * store_bytes<Out, Tile::width>(), dq,
      query_gradient.row(at.head, at.first + warp_row), query_gradient.stride,
      at.end - at.first - warp_row);
}

} // namespace kiln
