// The gradient of attention's bias: a block has a tile of queries and keys and walks over the heads
// that share a bias, in groups whose partial sums a second kernel adds up, in order. Products are
// those of warps, as of the other gradients.
#pragma once

#include "attention_backward.cuh"

namespace kiln {

/// Stores what is summed of the rows `row` and `row` + 8 of a thread, and columns from `first_key`
/// on, of which there are (queries, keys).
template <int deep>
KILN_DEVICE void store_sums(float* to, const float (&sums)[deep][4], int row, int first_key,
                            i64 queries, i64 keys) {
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = row + i / 2 * 8, key = first_key + 8 * n + lane_column() + i % 2;
      if (query < queries && key < keys)
        store_global(to + i64(query) * keys + key, sums[n][i]);
    }
}

/// Sums of score gradients over the heads that share a bias, of which the grid takes `groups` for
/// each. Heads are counted so that those that share a bias are neighbours, `sharing` of them.
/// `partials`: (groups, biases, queries, keys), fp32.
template <class Tile, class Scores, class Query, class Key, class Value, class Gradient, class Lse,
          class Delta>
KILN_DEVICE void differentiate_bias(Tile, char* memory, const Scores& scores, i64 biases,
                                    i64 sharing, int groups, const Query& query, const Key& key,
                                    const Value& value, const Gradient& gradient, const Lse& lse,
                                    const Delta& delta, float* partials) {
  using Gradients = MatrixTile<typename Tile::Element, Tile::queries, Tile::value_width>;
  const i64 all_queries = scores.sight.queries, all_keys = scores.sight.keys;
  const i64 key_tiles = (all_keys + Tile::keys - 1) / Tile::keys;
  const i64 query_tiles = (all_queries + Tile::queries - 1) / Tile::queries;
  i64 block = block_index();
  const int first_key = int(block % key_tiles) * Tile::keys;
  block /= key_tiles;
  const int first_query = int(block % query_tiles) * Tile::queries;
  block /= query_tiles;
  const i64 bias = block % biases, group = block / biases;
  const i64 first = sharing * group / groups, end = sharing * (group + 1) / groups;

  const typename Tile::Queries queries(memory);
  const Gradients gradients(memory + Tile::Queries::bytes);
  const typename Tile::Keys keys(memory + Tile::Queries::bytes + Gradients::bytes);
  const typename Tile::Values values(memory + Tile::Queries::bytes + Gradients::bytes +
                                     Tile::Keys::bytes);
  const int row = first_query + lane_row();
  const TwoSpans seen =
      seen_by_two(row, int(all_queries), [&](int query) { return scores.sight.keys_of(query); });
  float sums[Tile::deep][4] = {};
#pragma unroll 1
  for (i64 i = first; i < end; ++i) {
    const u32 head = u32(bias * sharing + i);
    queries.template fetch<Query::access, Tile::threads>(query.row(head, first_query), query.stride,
                                                         int(all_queries) - first_query);
    gradients.template fetch<Gradient::access, Tile::threads>(
        gradient.row(head, first_query), gradient.stride, int(all_queries) - first_query);
    keys.template fetch<Key::access, Tile::threads>(key.row(head, first_key), key.stride,
                                                    int(all_keys) - first_key);
    values.template fetch<Value::access, Tile::threads>(value.row(head, first_key), value.stride,
                                                        int(all_keys) - first_key);
    const QueryNumbers numbers[2] = {numbers_of<true>(lse, delta, head, row, int(all_queries)),
                                     numbers_of<true>(lse, delta, head, row + 8, int(all_queries))};
    wait_for_copies();
    block_barrier();
    float ds[Tile::deep][4], slopes[Tile::deep][4];
    score_gradients<Tile>(ds, slopes, scores.of(head), row, seen, numbers, queries, gradients, keys,
                          values, first_key);
#pragma unroll
    for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[n][j] += ds[n][j];
    block_barrier();
  }

  store_sums(partials + (group * biases + bias) * all_queries * all_keys, sums, row, first_key,
             all_queries, all_keys);
}
template <class Tile> KILN_DEVICE constexpr int bias_gradient_bytes() {
  return Tile::Queries::bytes +
         MatrixTile<typename Tile::Element, Tile::queries, Tile::value_width>::bytes +
         stage_bytes<Tile>();
}

/// Adds up the groups of partial sums, in order, and what the bias is the same along: all of a
/// row's or of a column's places where `rows` or `columns` is 1.
template <int groups, class Output>
KILN_DEVICE void finish_bias(const float* partials, i64 biases, i64 queries, i64 keys, i64 rows,
                             i64 columns, const Output& output, int threads) {
  const i64 count = biases * rows * columns;
  const i64 index = block_index() * threads + thread_index();
  if (index >= count)
    return;
  const i64 column = index % columns, row = index / columns % rows, bias = index / columns / rows;
  const i64 row_step = rows == 1 ? queries : 1, column_step = columns == 1 ? keys : 1;
  float sum = 0.0f;
  for (int group = 0; group < groups; ++group) {
    const float* from = partials + (group * biases + bias) * queries * keys;
    float of_group = 0.0f;
    for (i64 r = row * row_step; r < (row + 1) * row_step; ++r) {
      float of_row = 0.0f;
      for (i64 c = column * column_step; c < (column + 1) * column_step; ++c)
        of_row += load_global<float>(from + r * keys + c);
      of_group += of_row;
    }
    sum += of_group;
  }
  using Out = typename Output::Element;
  store_global(output.row(u32(bias), row) + column * output.heads.column_stride, Out(sum));
}

} // namespace kiln
