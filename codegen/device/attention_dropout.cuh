// What dropout keeps of the probabilities of a tile. The numbers are those of kiln.dropout: a
// counter makes those of eight keys of a query that are neighbours in the scores of all heads. A
// thread's accumulators are of many such eights, so that each lane makes the counters of some, and
// hands the others a bit for each number. Where rows of scores do not begin at multiples of eight,
// an eight of a tile has numbers of two counters.
#pragma once

#include "scores.cuh"

namespace kiln {

/// The values of all lanes whose indices differ in one bit, or'ed.
KILN_DEVICE u32 either_lane(u32 bits, int distance) {
  return bits | __builtin_bit_cast(u32, shuffle_xor(bits_to_float(bits), distance));
}
KILN_DEVICE u32 of_lane(u32 bits, int lane) {
  return __builtin_bit_cast(u32, shuffle_xor(bits_to_float(bits), thread_index() % 32 ^ lane));
}

/// Of the places of a thread whose rows are queries, `query` and query + 8, and columns keys from
/// `first` on. All 32 lanes of the warp take part. Of four lanes two have each of the rows' eights
/// by turns.
template <class Scores> struct KeptOfQueries {
  const Scores& scores;
  i64 eight;  // whose numbers the lane makes next
  u32 before; // of both rows the bits of the eight before
  int shift;  // from the row's places to those of counters

  KILN_DEVICE KeptOfQueries(const Scores& scores, int query, int first)
      : scores(scores), before(0) {
    const int lane = thread_index() % 4;
    const u64 place = u64(scores.place(query + lane / 2 * 8, first));
    shift = int(place % 8);
    eight = i64(place / 8) + lane % 2;
    if (scores.straddles()) {
      before = either_lane(scores.all.dropout.kept(i64(place / 8)) << lane / 2 * 8, 2);
      ++eight;
    }
  }
  /// Of the next two eights of columns: bit 16 (i / 2) + 8 n + i % 2 is of accumulator i of the
  /// n-th.
  KILN_DEVICE u32 next() {
    const int lane = thread_index() % 4;
    u32 bits = either_lane(either_lane(scores.all.dropout.kept(eight) << lane * 8, 1), 2);
    eight += 2;
    if (scores.straddles()) {
      const u32 one = (before & 0xff) | (bits & 0xffff) << 8, other = before >> 8 | bits >> 16 << 8;
      before = (bits >> 8 & 0xff) | bits >> 24 << 8;
      bits = (one >> shift & 0xffff) | other >> shift << 16;
    }
    return bits >> lane * 2;
  }
};

/// The same where rows are keys, `key` and key + 8, and columns queries. A lane has the numbers of
/// eight keys and a query: of two eights of queries at once, or, of eights that straddle, of one.
template <class Scores> struct KeptOfKeys {
  const Scores& scores;
  u64 place; // of the warp's first key and the lane's query
  KILN_DEVICE KeptOfKeys(const Scores& scores, int key, int first)
      : scores(scores),
        place(scores.place(first + thread_index() % 8, key - thread_index() % 32 / 4)) {}

  KILN_DEVICE u32 next() {
    const i64 of_eight = 8 * scores.all.sight.keys; // places of eight queries
    const int lane = thread_index() % 32, part = lane / 8;
    u32 bits = 0;
    if (scores.straddles()) {
#pragma unroll
      for (int n = 0; n < 2; ++n, place += of_eight) {
        const u32 made = scores.all.dropout.kept(i64(place / 8) + part) << part * 8;
        const u32 both = either_lane(either_lane(made, 8), 16) >> int(place % 8);
        bits |= ((both & 0xff) | (both >> 8 & 0xff) << 16) << 8 * n;
      }
    } else {
      const i64 eight = i64(place + part % 2 * of_eight) / 8 + part / 2;
      bits = either_lane(either_lane(scores.all.dropout.kept(eight) << part * 8, 8), 16);
      place += 2 * of_eight;
    }
    const u32 one = of_lane(bits, lane % 4 * 2), next = of_lane(bits, lane % 4 * 2 + 1);
    return (one >> lane / 4 & 0x01010101) | (next >> lane / 4 & 0x01010101) << 1;
  }
};
template <bool transposed, class Scores> struct KeptPlaces {
  using type = KeptOfQueries<Scores>;
};
template <class Scores> struct KeptPlaces<true, Scores> {
  using type = KeptOfKeys<Scores>;
};

/// `work(n, factors)` for each eight of columns: what dropout multiplies the thread's four
/// probabilities by. `row`, `first`: of the thread's rows and of the columns, as make_exponents.
template <bool transposed, int deep, class Scores, class Work>
KILN_DEVICE void for_factors(const Scores& scores, int row, int first, const Work& work) {
  float factors[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  if constexpr (Scores::has_dropout) {
    typename KeptPlaces<transposed, Scores>::type kept(scores, row, first);
    u32 bits = 0;
#pragma unroll
    for (int n = 0; n < deep; ++n) {
      if (n % 2 == 0)
        bits = kept.next();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int bit = i / 2 * 16 + n % 2 * 8 + i % 2;
        factors[i] = (bits >> bit & 1) != 0 ? scores.all.dropout.scale : 0.0f;
      }
      work(n, factors);
    }
  } else {
#pragma unroll
    for (int n = 0; n < deep; ++n)
      work(n, factors);
  }
}

/// Drops probabilities, or gradients of what was dropped. Rows are queries.
template <int deep, class Scores>
KILN_DEVICE void drop(float (&p)[deep][4], const Scores& scores, int query, int first_key) {
  if constexpr (Scores::has_dropout)
    for_factors<false, deep>(scores, query, first_key, [&](int n, const float(&factors)[4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[n][i] *= factors[i];
    });
}

} // namespace kiln
