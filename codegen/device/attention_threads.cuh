// Attention by threads alone: `lanes` of them have a row of queries, or of keys, and walk over the
// rows of the others that it sees, which they read where they lie. For heads of few rows, of which
// a tile would be mostly empty, such as AlphaFold's pointwise attention of templates: rows of all
// heads are side by side in a block. Products and sums are of fp32.
#pragma once

#include "attention_backward.cuh"

namespace kiln {

template <class Tile, int width, class T = float> struct ShareOfRow;

template <class T, int width_, int value_width_, int rows_, int lanes_> struct ThreadRows {
  using Keys = ShareOfRow<ThreadRows, width_, T>; // on their way
  using Values = ShareOfRow<ThreadRows, value_width_, T>;
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int rows = rows_;   // of a block
  static constexpr int lanes = lanes_; // that have a row
  static constexpr int vector = 16 / int(sizeof(T));
  static constexpr int together = 4; // rows that are on their way at once
  static_assert(32 % lanes == 0 && rows * lanes % 32 == 0, "a warp has whole rows");
};

/// The sum over the lanes of a row, in each of them.
template <class Tile> KILN_DEVICE float sum_over_row(float value) {
#pragma unroll
  for (int mask = 1; mask < Tile::lanes; mask *= 2)
    value += shuffle_xor(value, mask);
  return value;
}

/// A lane's elements of a row of `width`, vectors of 16 bytes of the operands, in turn with the
/// other lanes: fp32, or while they are on their way as they lie in memory.
template <class Tile, int width, class T> struct ShareOfRow {
  static constexpr int vector = Tile::vector, step = Tile::lanes * vector;
  static constexpr int vectors = (width + step - 1) / step;
  T values[vectors][vector];

  /// Calls `body` with the first element, vector and place in it of each `access` neighbours.
  template <int access, class Body> static KILN_DEVICE void each(Body body) {
#pragma unroll
    for (int v = 0; v < vectors; ++v)
#pragma unroll
      for (int i = 0; i < vector; i += access) {
        const int element = v * step + thread_index() % Tile::lanes * vector + i;
        if (width % step == 0 || element < width)
          body(element, v, i);
      }
  }
  template <class Rows>
  static constexpr int access_of = Rows::access < vector ? Rows::access : vector;

  /// Zeros where the row is not there.
  template <class Rows> KILN_DEVICE void load(const Rows& rows, u32 head, int row, bool is_there) {
    constexpr int access = access_of<Rows>;
#pragma unroll
    for (int v = 0; v < vectors; ++v)
#pragma unroll
      for (int i = 0; i < vector; ++i)
        values[v][i] = T{};
    if (!is_there)
      return;
    const auto* from = rows.row(head, row);
    each<access>([&](int element, int v, int i) {
      const auto part = load_global<Vec<typename Rows::Element, access>>(
          from + element * rows.heads.column_stride);
#pragma unroll
      for (int j = 0; j < access; ++j)
        values[v][i + j] = T(part[j]);
    });
  }
  template <class Rows> KILN_DEVICE void store(const Rows& rows, u32 head, int row) const {
    constexpr int access = access_of<Rows>;
    each<access>([&](int element, int v, int i) {
      Vec<float, access> part;
#pragma unroll
      for (int j = 0; j < access; ++j)
        part[j] = values[v][i + j];
      store_neighbours(part, rows, head, row, element);
    });
  }

  template <class Other> KILN_DEVICE float dot(const Other& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < vectors; ++v)
#pragma unroll
      for (int i = 0; i < vector; ++i)
        sum = fmaf(values[v][i], float(other.values[v][i]), sum);
    return sum_over_row<Tile>(sum);
  }
  template <class Other> KILN_DEVICE void add(float factor, const Other& other) {
#pragma unroll
    for (int v = 0; v < vectors; ++v)
#pragma unroll
      for (int i = 0; i < vector; ++i)
        values[v][i] = fmaf(factor, float(other.values[v][i]), values[v][i]);
  }
  KILN_DEVICE void scale(float factor) {
#pragma unroll
    for (int v = 0; v < vectors; ++v)
#pragma unroll
      for (int i = 0; i < vector; ++i)
        values[v][i] *= factor;
  }
};

/// The row that a thread has a share of: among `heads` times `rows`.
template <class Tile> struct RowOfThread {
  bool is_there;
  u32 head;
  int row;

  KILN_DEVICE RowOfThread(i64 heads, i64 rows) {
    const i64 number = block_index() * Tile::rows + thread_index() / Tile::lanes;
    is_there = number < heads * rows;
    head = is_there ? u32(number / rows) : 0;
    row = is_there ? int(number % rows) : 0;
  }
};

/// What any row of the warp sees: all its lanes walk together.
KILN_DEVICE Span seen_by_warp(const Span& own) {
  using Any = Sight<OneSequence>;
  int begin = own.begin < own.end ? own.begin : 0x7fffffff, end = own.begin < own.end ? own.end : 0;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const int other = Any::exchange(begin, mask), other_end = Any::exchange(end, mask);
    begin = other < begin ? other : begin;
    end = other_end > end ? other_end : end;
  }
  return {begin < end ? begin : 0, end};
}

/// Starts to load neighbouring rows of two tensors, as far as the row in question sees them.
template <int together, class First, class Second, class A, class B>
KILN_DEVICE void load_neighbours(First (&first)[together], Second (&second)[together], const A& a,
                                 const B& b, u32 head, int from, const Span& seen) {
#pragma unroll
  for (int j = 0; j < together; ++j) {
    first[j].load(a, head, from + j, seen.has(from + j));
    second[j].load(b, head, from + j, seen.has(from + j));
  }
}

/// The exponent of a place, -inf if it is hidden. `is_open`: as far as sight tells. `Scores`:
/// HeadScores.
template <class Scores>
KILN_DEVICE float exponent_of_place(const Scores& scores, float product, int query, int key,
                                    bool is_open, float& slope) {
  float exponent = scores.all.exponent(product, slope);
  if (is_open) {
    if constexpr (Scores::has_bias)
      exponent += scores.added(query, key);
    if constexpr (Scores::masks_keys)
      is_open = !scores.hides(key);
    if constexpr (Scores::masks_places)
      is_open = load_global<u8>(scores.mask + query * scores.all.mask.stride +
                                key * scores.all.mask.heads.column_stride) != 0;
  }
  return is_open ? exponent : -infinity();
}
/// What dropout multiplies the probability of a place by.
template <class Scores> KILN_DEVICE float kept_of_place(const Scores& scores, int query, int key) {
  if constexpr (Scores::has_dropout) {
    const u64 place = u64(scores.place(query, key));
    const bool is_kept = scores.all.dropout.kept(i64(place / 8)) >> place % 8 & 1;
    return is_kept ? scores.all.dropout.scale : 0.0f;
  } else {
    return 1.0f;
  }
}

template <class Tile, class Scores, class Query, class Key, class Value, class Output, class Lse>
KILN_DEVICE void attend_by_threads(Tile, const Scores& scores, i64 heads, const Query& query,
                                   const Key& key, const Value& value, const Output& output,
                                   const Lse& lse) {
  constexpr int together = Tile::together;
  const RowOfThread<Tile> at(heads, scores.sight.queries);
  const Span seen = at.is_there ? scores.sight.keys_of(at.row) : Span{0, 0};
  const Span all = seen_by_warp(seen);
  const auto of_head = scores.of(at.head);
  const float factor = scores.factor();
  ShareOfRow<Tile, Tile::width> q;
  ShareOfRow<Tile, Tile::value_width> sums = {};
  typename Tile::Keys k[together];
  typename Tile::Values v[together];
  float reference = -infinity(), total = 0.0f; // of exponents, the largest so far; of powers
  q.load(query, at.head, at.row, at.is_there);
#pragma unroll 1
  for (int from = all.begin; from < all.end; from += together) {
    load_neighbours(k, v, key, value, at.head, from, seen);
    float x[together], most = reference, slope;
#pragma unroll
    for (int j = 0; j < together; ++j) {
      x[j] = -infinity();
      if (from + j < all.end)
        x[j] = exponent_of_place(of_head, q.dot(k[j]), at.row, from + j, seen.has(from + j), slope);
      most = fmaxf(most, x[j]);
    }
    const float scaled = most == reference ? 1.0f : exp2_approximate((reference - most) * factor);
    const Powers over = powers_over<Scores::has_bias>(most, factor);
    total *= scaled;
    sums.scale(scaled);
#pragma unroll
    for (int j = 0; j < together; ++j) {
      const float power = exp2_approximate(fmaf(x[j], over.factor, -over.under));
      total += power;
      if (seen.has(from + j))
        sums.add(power * kept_of_place(of_head, at.row, from + j), v[j]);
    }
    reference = most;
  }
  if (!at.is_there)
    return;
  sums.scale(total == 0.0f ? 0.0f : 1.0f / total);
  sums.store(output, at.head, at.row);
  if (thread_index() % Tile::lanes == 0)
    store_global(lse.row(at.head, at.row),
                 total == 0.0f ? -infinity()
                               : logarithm_of<Scores::has_bias>(reference, factor, total));
}

/// The probability of a place and the gradient of its product, over the scale, from the two
/// products of it: of query and key, and of output's gradient and value.
struct PlaceGradients {
  float dropped, of_product;
};
template <class Scores>
KILN_DEVICE PlaceGradients gradients_of_place(const Scores& scores, float product, float dp,
                                              const QueryNumbers& numbers, int query, int key,
                                              bool is_open) {
  float slope;
  const float exponent = exponent_of_place(scores, product, query, key, is_open, slope);
  const float power = exp2_approximate(fmaf(exponent, scores.all.factor(), -numbers.lse));
  const float kept = is_open ? kept_of_place(scores, query, key) : 0.0f;
  // Where nothing is open products may be anything, also infinite.
  return {power * kept, power == 0.0f ? 0.0f : power * fmaf(dp, kept, -numbers.delta) * slope};
}

template <class Tile, class Scores, class Query, class Key, class Value, class Gradient, class Lse,
          class Delta, class QueryGradient>
KILN_DEVICE void differentiate_queries_by_threads(Tile, const Scores& scores, i64 heads,
                                                  const Query& query, const Key& key,
                                                  const Value& value, const Gradient& gradient,
                                                  const Lse& lse, const Delta& delta,
                                                  const QueryGradient& query_gradient) {
  constexpr int together = Tile::together;
  const RowOfThread<Tile> at(heads, scores.sight.queries);
  const Span seen = at.is_there ? scores.sight.keys_of(at.row) : Span{0, 0};
  const Span all = seen_by_warp(seen);
  const auto of_head = scores.of(at.head);
  ShareOfRow<Tile, Tile::width> q, dq = {};
  ShareOfRow<Tile, Tile::value_width> g;
  typename Tile::Keys k[together];
  typename Tile::Values v[together];
  q.load(query, at.head, at.row, at.is_there);
  g.load(gradient, at.head, at.row, at.is_there);
  const QueryNumbers numbers =
      numbers_of<Scores::has_bias>(lse, delta, at.head, at.row, at.is_there ? at.row + 1 : 0);
#pragma unroll 1
  for (int from = all.begin; from < all.end; from += together) {
    load_neighbours(k, v, key, value, at.head, from, seen);
#pragma unroll
    for (int j = 0; j < together; ++j)
      if (from + j < all.end) {
        const PlaceGradients place = gradients_of_place(of_head, q.dot(k[j]), g.dot(v[j]), numbers,
                                                        at.row, from + j, seen.has(from + j));
        dq.add(place.of_product, k[j]);
      }
  }
  if (!at.is_there)
    return;
  dq.scale(scores.scale);
  dq.store(query_gradient, at.head, at.row);
}

/// `heads` are those of keys, each of which `shared_by` of queries share.
template <bool has_keys, bool has_values, class Tile, class Scores, class Query, class Key,
          class Value, class Gradient, class Lse, class Delta, class KeyGradient,
          class ValueGradient>
KILN_DEVICE void differentiate_keys_by_threads(Tile, const Scores& scores, i64 heads, int shared_by,
                                               const Query& query, const Key& key,
                                               const Value& value, const Gradient& gradient,
                                               const Lse& lse, const Delta& delta,
                                               const KeyGradient& key_gradient,
                                               const ValueGradient& value_gradient) {
  constexpr int together = Tile::together;
  const RowOfThread<Tile> at(heads, scores.sight.keys);
  const Span seen = at.is_there ? scores.sight.queries_of(at.row) : Span{0, 0};
  const Span all = seen_by_warp(seen);
  const u32 first_head = at.head * u32(shared_by);
  ShareOfRow<Tile, Tile::width> k, dk = {};
  ShareOfRow<Tile, Tile::value_width> v, dv = {};
  typename Tile::Keys q[together]; // rows of queries are as wide
  typename Tile::Values g[together];
  k.load(key, first_head, at.row, at.is_there);
  v.load(value, first_head, at.row, at.is_there);
#pragma unroll 1
  for (u32 head = first_head; head < first_head + u32(shared_by); ++head) {
    const auto of_head = scores.of(head);
#pragma unroll 1
    for (int from = all.begin; from < all.end; from += together) {
      QueryNumbers numbers[together];
      load_neighbours(q, g, query, gradient, head, from, seen);
#pragma unroll
      for (int j = 0; j < together; ++j)
        numbers[j] = numbers_of<Scores::has_bias>(lse, delta, head, from + j,
                                                  seen.has(from + j) ? from + j + 1 : 0);
#pragma unroll
      for (int j = 0; j < together; ++j)
        if (from + j < all.end) {
          const PlaceGradients place = gradients_of_place(
              of_head, k.dot(q[j]), v.dot(g[j]), numbers[j], from + j, at.row, seen.has(from + j));
          if constexpr (has_keys)
            dk.add(place.of_product, q[j]);
          if constexpr (has_values)
            dv.add(place.dropped, g[j]);
        }
    }
  }
  if (!at.is_there)
    return;
  if constexpr (has_keys) {
    dk.scale(scores.scale);
    dk.store(key_gradient, at.head, at.row);
  }
  if constexpr (has_values)
    dv.store(value_gradient, at.head, at.row);
}

} // namespace kiln
