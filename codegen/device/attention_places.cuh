// What a mask that is of queries as well as of keys says of a tile of scores. Lanes read it in
// vectors, a bit a place, and hand each other the bits: element by element it took longer than the
// products.
#pragma once

#include "attention_dropout.cuh"

namespace kiln {

/// A bit for each byte of four that is not 0.
KILN_DEVICE u32 bits_of_bytes(u32 bytes) {
  const u32 high = ((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu | bytes) & 0x80808080u;
  return (high >> 7) * 0x10204080u >> 28;
}

/// What a mask has of `count` keys from `key` on for a query, a byte each, not 0 where they are
/// open. Of a query or a key that is not there nothing is read.
template <int count, class Scores>
KILN_DEVICE Vec<u32, count / 4> read_neighbours(const Scores& scores, i64 query, i64 key) {
  static_assert(count == 4 || count == 8 || count == 16, "what one access reads");
  Vec<u32, count / 4> words = {};
  const auto& sight = scores.all.sight;
  if (query >= sight.queries || key >= sight.keys)
    return words;
  const i64 step = scores.all.mask.heads.column_stride;
  const u8* from = scores.mask + query * scores.all.mask.stride + key * step;
  if (step == 1 && key + count <= sight.keys && reinterpret_cast<u64>(from) % count == 0)
    return load_global<Vec<u32, count / 4>>(from);
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (key + i < sight.keys)
      words[i / 4] |= u32(load_global<u8>(from + i * step)) << i % 4 * 8;
  return words;
}
template <int words> KILN_DEVICE u32 bits_of(const Vec<u32, words>& bytes) {
  u32 bits = 0;
#pragma unroll
  for (int word = 0; word < words; ++word)
    bits |= bits_of_bytes(bytes[word]) << 4 * word;
  return bits;
}

/// Which places of a thread's accumulators are open: `deep` eights of columns, of rows `row` and
/// row + 8. Rows are queries and columns keys, or the other way round where scores are
/// `transposed`. All 32 lanes of the warp take part. A tile is fetched while the one before is at
/// work, since it comes from far.
template <bool transposed, int deep> struct OpenPlaces {
  static constexpr int words = (deep + 3) / 4; // of 32 keys, or of the last 16
  static_assert(deep % 2 == 0, "columns are 16 and more");
  Vec<u32, 2> ahead[2][words]; // of the four lanes that share a row each has a part of the keys
  u32 bits[2][words];          // of a row, from the lane's columns on

  template <class Scores> KILN_DEVICE void fetch(const Scores& scores, int row, int first) {
    const int lane = thread_index() % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int word = 0; word < words; ++word) {
        const int query = row + 8 * r, key = first + 32 * word;
        if (deep - 4 * word >= 4)
          ahead[r][word] = read_neighbours<8>(scores, query, key + 8 * lane);
        else
          ahead[r][word] = {{read_neighbours<4>(scores, query, key + 4 * lane)[0], 0}};
      }
  }
  KILN_DEVICE void take() {
    const int lane = thread_index() % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int word = 0; word < words; ++word) {
        const u32 part = bits_of(ahead[r][word]) << (deep - 4 * word >= 4 ? 8 : 4) * lane;
        bits[r][word] = either_lane(either_lane(part, 1), 2) >> 2 * lane;
      }
  }
  KILN_DEVICE void hide(float (&x)[deep][4]) const {
#pragma unroll
    for (int n = 0; n < deep; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if ((bits[i / 2][n / 4] >> (n % 4 * 8 + i % 2) & 1) == 0)
          x[n][i] = -infinity();
  }
};
template <int deep> struct OpenPlaces<true, deep> {
  static constexpr int words = (deep + 3) / 4; // of 32 queries, or of the last 16
  static_assert(deep % 2 == 0, "columns are 16 and more");
  Vec<u32, 4> ahead[words];  // a lane has the warp's 16 keys of one query
  u32 bits[(words + 1) / 2]; // of them, and of one 32 queries later

  template <class Scores> KILN_DEVICE void fetch(const Scores& scores, int row, int first) {
    const int lane = thread_index() % 32, key = row - lane / 4;
#pragma unroll
    for (int word = 0; word < words; ++word) {
      ahead[word] = {};
      if (deep - 4 * word >= 4 || lane < 16)
        ahead[word] = read_neighbours<16>(scores, first + 32 * word + lane, key);
    }
  }
  KILN_DEVICE void take() {
#pragma unroll
    for (int word = 0; word < words; word += 2) {
      bits[word / 2] = bits_of(ahead[word]);
      if (word + 1 < words)
        bits[word / 2] |= bits_of(ahead[word + 1]) << 16;
    }
  }
  /// Each lane asks those that have its columns' queries.
  KILN_DEVICE void hide(float (&x)[deep][4]) const {
    const int lane = thread_index() % 32;
#pragma unroll
    for (int n = 0; n < deep; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n % 8 >= 4)
          continue; // has been asked for with the one four before
        const u32 column = of_lane(bits[n / 8], 8 * (n % 4) + lane % 4 * 2 + i) >> lane / 4;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if ((column >> 8 * r & 1) == 0)
            x[n][2 * r + i] = -infinity();
          if (n + 4 < deep && (column >> (16 + 8 * r) & 1) == 0)
            x[n + 4 < deep ? n + 4 : n][2 * r + i] = -infinity();
        }
      }
  }
};

/// Fetches those of the tile from `first` on, where the mask is of queries too; else nobody asks.
template <bool transposed, int deep, class Scores>
KILN_DEVICE void fetch_places(OpenPlaces<transposed, deep>& places, const Scores& scores, int row,
                              int first) {
  if constexpr (Scores::masks_places)
    places.fetch(scores, row, first);
}
/// Takes what has been fetched.
template <bool transposed, int deep, class Scores>
KILN_DEVICE void take_places(OpenPlaces<transposed, deep>& places, const Scores& scores) {
  if constexpr (Scores::masks_places)
    places.take();
}
/// And fetches the next tile's.
template <bool transposed, int deep, class Scores>
KILN_DEVICE void take_places(OpenPlaces<transposed, deep>& places, const Scores& scores, int row,
                             int next) {
  take_places(places, scores);
  fetch_places(places, scores, row, next);
}

} // namespace kiln
