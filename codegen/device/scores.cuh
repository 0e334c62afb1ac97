// The scores of attention: which places of (queries, keys) are open, and what is done to a product
// of a query and a key before it is an exponent. Heads are counted through all leading dimensions.
// Exponents are to the base of two, of which one instruction makes a power; where a bias is added,
// to the natural base.
#pragma once

#include "matrix_tile.cuh"
#include "random.cuh"

namespace kiln {

inline constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;
KILN_DEVICE float infinity() {
  return bits_to_float(0x7f800000u);
}

template <class T> struct Unqualified {
  using Type = T;
};
template <class T> struct Unqualified<const T> {
  using Type = T;
};

/// Rows of a tensor, head by head; `access` elements of one can be moved at once.
template <class T, int access_, int rank> struct HeadRows {
  using Element = typename Unqualified<T>::Type;
  static constexpr int access = access_;
  T* data;
  RowMap<rank> heads; // to a head's first row; column_stride: between a row's elements
  i64 stride;         // between rows; 0: there is one

  KILN_DEVICE T* row(u32 head, i64 row) const { return data + heads.offset(head) + row * stride; }
};
template <int access, class T, int rank>
KILN_DEVICE HeadRows<T, access, rank> head_rows(T* data, const RowMap<rank>& heads, i64 stride) {
  return {data, heads, stride};
}
/// Of a mask whose rows are each a query's own; others are of keys alone.
template <class Rows> struct MaskOfPlaces : Rows {};
template <class Rows> inline constexpr bool is_of_places = false;
template <class Rows> inline constexpr bool is_of_places<MaskOfPlaces<Rows>> = true;
template <class Rows> KILN_DEVICE MaskOfPlaces<Rows> mask_of_places(const Rows& rows) {
  return {rows};
}

/// Places [begin, end) of a row or a column of scores.
struct Span {
  int begin, end;
  KILN_DEVICE bool has(int place) const { return place >= begin && place < end; }
  KILN_DEVICE bool covers(int first, int last) const { return begin <= first && last <= end; }
};

enum class Causal { none, first, last }; // which rows of queries and keys are aligned

/// One sequence over all queries and keys.
struct OneSequence {};
/// Rows starts[n] to starts[n + 1] - 1 belong to sequence n.
struct PackedSequences {
  const i32* query_starts; // (starts), ascending
  const i32* key_starts;
  i64 starts; // one more than there are sequences

  /// The last sequence that does not begin behind a row; -1 before the first.
  static KILN_DEVICE int find(const i32* starts, int count, int row) {
    int low = 0, high = count + 1; // the first start behind the row
    while (low < high) {
      const int middle = (low + high) / 2;
      if (load_global<i32>(starts + middle) <= row)
        low = middle + 1;
      else
        high = middle;
    }
    return low - 1;
  }
  /// Of the rows that exist, whatever `starts` holds.
  static KILN_DEVICE Span rows(const i32* starts, int n, i64 count) {
    const int begin = load_global<i32>(starts + n), end = load_global<i32>(starts + n + 1);
    return {begin > 0 ? begin : 0, end < count ? end : int(count)};
  }
};

/// Which keys a query sees, and which queries see a key, but for masks. Windows of -1 are
/// unlimited.
template <class Sequences> struct Sight {
  static constexpr bool packed = same_type<Sequences, PackedSequences>;
  i64 queries, keys;
  Causal causal;
  int left, right;
  Sequences sequences;

  /// Whether each row sees all others. Of rows that do not exist nobody asks what they see then.
  KILN_DEVICE bool sees_all() const {
    return !packed && causal == Causal::none && left < 0 && right < 0;
  }

  /// Whether each query that sees any key sees those from the first on.
  KILN_DEVICE bool sees_from_first() const { return !packed && left < 0; }

  /// Of a row among `queries` or `keys`: its sequence's rows on both sides. Empty: it has none.
  struct Pair {
    Span queries, keys;
  };
  KILN_DEVICE Pair sequence_of(int row, bool is_query) const {
    if constexpr (packed) {
      const int count = int(sequences.starts) - 1;
      const int n =
          sequences.find(is_query ? sequences.query_starts : sequences.key_starts, count, row);
      if (n < 0 || n >= count)
        return {{0, 0}, {0, 0}};
      return {sequences.rows(sequences.query_starts, n, queries),
              sequences.rows(sequences.key_starts, n, keys)};
    } else {
      return {{0, int(queries)}, {0, int(keys)}};
    }
  }
  /// How far keys are ahead of the queries that they are aligned with.
  KILN_DEVICE int ahead(const Pair& pair) const {
    return causal == Causal::last
               ? (pair.keys.end - pair.keys.begin) - (pair.queries.end - pair.queries.begin)
               : 0;
  }
  static KILN_DEVICE Span within(const Span& all, i64 begin, i64 end) {
    const i64 from = begin > all.begin ? begin : all.begin, to = end < all.end ? end : all.end;
    return to > from ? Span{int(from), int(to)} : Span{0, 0};
  }

  KILN_DEVICE Span keys_of(int query) const {
    const Pair pair = sequence_of(query, true);
    if (!pair.queries.has(query))
      return {0, 0};
    const i64 aligned = i64(query) - pair.queries.begin + ahead(pair) + pair.keys.begin;
    i64 begin = 0, end = pair.keys.end;
    if (causal != Causal::none)
      end = aligned + 1;
    if (right >= 0 && aligned + right + 1 < end)
      end = aligned + right + 1;
    if (left >= 0)
      begin = aligned - left;
    return within(pair.keys, begin, end);
  }
  KILN_DEVICE Span queries_of(int key) const {
    const Pair pair = sequence_of(key, false);
    if (!pair.keys.has(key))
      return {0, 0};
    const i64 aligned = i64(key) - pair.keys.begin - ahead(pair) + pair.queries.begin;
    i64 begin = 0, end = pair.queries.end;
    if (causal != Causal::none)
      begin = aligned;
    if (right >= 0 && aligned - right > begin)
      begin = aligned - right;
    if (left >= 0)
      end = aligned + left + 1;
    return within(pair.queries, begin, end);
  }

  /// What the rows [first, last) see together: a superset of it, exact but for rows without any.
  /// `of`: keys_of or queries_of. Of one sequence, a later row begins and ends to see later: if the
  /// first and the last see something they tell it all. Else lanes of the warp look at the rows
  /// side by side.
  template <class Of> static KILN_DEVICE Span seen_by(int first, int last, Of of) {
    if (!packed && first < last) {
      const Span of_first = of(first), of_last = of(last - 1);
      if (of_first.begin < of_first.end && of_last.begin < of_last.end)
        return {of_first.begin, of_last.end};
    }
    int begin = 0x7fffffff, end = 0;
    for (int row = first + thread_index() % 32; row < last; row += 32) {
      const Span span = of(row);
      if (span.end > span.begin) {
        begin = span.begin < begin ? span.begin : begin;
        end = span.end > end ? span.end : end;
      }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      const int other = exchange(begin, mask), other_end = exchange(end, mask);
      begin = other < begin ? other : begin;
      end = other_end > end ? other_end : end;
    }
    return begin < end ? Span{begin, end} : Span{0, 0};
  }
  static KILN_DEVICE int exchange(int value, int mask) {
    return __builtin_bit_cast(int, shuffle_xor(__builtin_bit_cast(float, value), mask));
  }
};

/// No tensor: of a bias, or of a mask.
struct NoTensor {
  using Element = float;
  static constexpr int access = 1;
};

/// No dropout of probabilities.
struct NoDropout {};
/// Of `bits` bits a number decides: what has one below `least` becomes 0.
template <int bits> struct Dropout {
  u64 seed, offset;
  i64 least;   // as a signed word; 2^31: nothing is kept
  float scale; // of what is kept

  /// A bit for each of eight neighbours, of whose places the first is 8 `eight`.
  KILN_DEVICE u32 kept(i64 eight) const {
    constexpr int counters = bits / 16, of_counter = 8 / counters;
    Vec<u32, 4> words[counters];
#pragma unroll
    for (int j = 0; j < counters; ++j) {
      const u64 place = u64(eight) * counters + j;
      words[j] = {{u32(place), u32(place >> 32), u32(offset), u32(offset >> 32)}};
    }
    philox(seed, words);
    u32 dropped = 0;
#pragma unroll
    for (int i = 7; i >= 0; --i) {
      const i32 number = i32(number_of<bits>(words[i / of_counter], i % of_counter));
      if constexpr (bits == 16) // by the sign of a difference
        dropped = dropped << 1 | u32((number >> 16) - i32(least >> 16)) >> 31;
      else
        dropped = dropped << 1 | u32(i64(number) < least);
    }
    return ~dropped & 0xff;
  }
};

/// `Bias` and `Mask`: HeadRows, or NoTensor. `heads`: a head's number in the row-major order of
/// dropout, where a kernel counts heads in another.
template <class Sequences, class Bias, class Mask, class Drop, int rank> struct Scores {
  static constexpr bool has_bias = !same_type<Bias, NoTensor>;
  static constexpr bool has_mask = !same_type<Mask, NoTensor>;
  static constexpr bool masks_places = is_of_places<Mask>;
  static constexpr bool has_dropout = !same_type<Drop, NoDropout>;
  using BiasElement = typename Bias::Element;
  static constexpr int bias_access = Bias::access;
  Sight<Sequences> sight;
  float scale, softcap; // softcap 0: none
  Bias bias;
  Mask mask;
  Drop dropout;
  RowMap<rank> heads;

  /// What makes exponents of scores. A bias is added as it is: what is multiplied may be none of
  /// fp32's numbers.
  static KILN_DEVICE constexpr float unit() { return has_bias ? 1.0f : log2_e; }
  /// Whether exponents stay products until powers are made of them, which multiplies by factor().
  KILN_DEVICE bool is_lazy() const { return !has_bias && softcap == 0.0f && scale > 0.0f; }
  KILN_DEVICE float factor() const { return is_lazy() ? scale * log2_e : has_bias ? log2_e : 1.0f; }
  /// The exponent of an open place from its product, over factor(); `slope`: of the score by scale
  /// times the product.
  KILN_DEVICE float exponent(float product, float& slope) const {
    slope = 1.0f;
    if (is_lazy())
      return product;
    if (softcap == 0.0f)
      return product * (scale * unit());
    const float bent = tanhf(product * (scale / softcap));
    slope = fmaf(-bent, bent, 1.0f);
    return bent * (softcap * unit());
  }
  KILN_DEVICE auto of(u32 head) const;
};

/// The same of one head, whose rows have been found.
template <class All> struct HeadScores {
  static constexpr bool has_bias = All::has_bias, has_mask = All::has_mask;
  static constexpr bool has_dropout = All::has_dropout;
  /// Whether a mask is of queries too, or hides keys from all queries alike.
  static constexpr bool masks_places = All::masks_places;
  static constexpr bool masks_keys = has_mask && !masks_places;
  const All& all;
  const typename All::BiasElement* bias;
  const u8* mask;
  i64 number; // of its first score, for dropout

  /// What is added to the exponent of an open place.
  KILN_DEVICE float added(int query, int key) const {
    if constexpr (has_bias)
      return float(load_global<typename All::BiasElement>(bias + query * all.bias.stride +
                                                          key * all.bias.heads.column_stride));
    else
      return 0.0f;
  }
  /// The same of a key, which is even, and the next.
  KILN_DEVICE Vec<float, 2> added_to_two(int query, int key) const {
    if constexpr (has_bias && All::bias_access >= 2) {
      const auto pair =
          load_global<Vec<typename All::BiasElement, 2>>(bias + query * all.bias.stride + key);
      return {{float(pair[0]), float(pair[1])}};
    } else {
      return {{added(query, key), added(query, key + 1)}};
    }
  }
  /// Whether a mask of keys hides one.
  KILN_DEVICE bool hides(int key) const {
    if constexpr (masks_keys)
      return load_global<u8>(mask + key * all.mask.heads.column_stride) == 0;
    else
      return false;
  }
  /// In the row-major order of all heads' scores, by which dropout counts.
  KILN_DEVICE i64 place(int query, int key) const { return number + query * all.sight.keys + key; }
  /// Whether rows begin between multiples of eight places.
  KILN_DEVICE bool straddles() const { return all.sight.keys % 8 != 0; }
};
template <class Sequences, class Bias, class Mask, class Drop, int rank>
KILN_DEVICE auto Scores<Sequences, Bias, Mask, Drop, rank>::of(u32 head) const {
  HeadScores<Scores> one{*this, nullptr, nullptr, 0};
  if constexpr (has_bias)
    one.bias = bias.row(head, 0);
  if constexpr (has_mask)
    one.mask = mask.row(head, 0);
  if constexpr (has_dropout)
    one.number = heads.offset(head) * sight.queries * sight.keys;
  return one;
}
template <class Sequences, class Bias, class Mask, class Drop, int rank>
KILN_DEVICE Scores<Sequences, Bias, Mask, Drop, rank>
make_scores(const Sight<Sequences>& sight, float scale, float softcap, const Bias& bias,
            const Mask& mask, const Drop& dropout, const RowMap<rank>& heads) {
  return {sight, scale, softcap, bias, mask, dropout, heads};
}

} // namespace kiln
