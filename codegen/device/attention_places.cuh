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

/// A bit for each of the `count` keys from `key` on that are open to a query. Of a query or a key
/// that is not there nothing is read.
template <int count, class Scores>
KILN_DEVICE u32 open_neighbours(const Scores& scores, i64 query, i64 key) {
  static_assert(count == 4 || count == 8 || count == 16, "what one access reads");
  const auto& sight = scores.all.sight;
  if (query >= sight.queries || key >= sight.keys)
    return 0;
  const i64 step = scores.all.mask.heads.column_stride;
  const u8* from = scores.mask + query * scores.all.mask.stride + key * step;
  u32 open = 0;
  if (step == 1 && key + count <= sight.keys && reinterpret_cast<u64>(from) % count == 0) {
    const auto words = load_global<Vec<u32, count / 4>>(from);
#pragma unroll
    for (int word = 0; word < count / 4; ++word)
      open |= bits_of_bytes(words[word]) << 4 * word;
    return open;
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (key + i < sight.keys && load_global<u8>(from + i * step) != 0)
      open |= 1u << i;
  return open;
}

/// Which places of a thread's accumulators are open: `deep` eights of columns, of rows `row` and
/// row + 8. Rows are queries and columns keys, or the other way round where scores are
/// `transposed`. All 32 lanes of the warp read together.
template <bool transposed, int deep> struct OpenPlaces {
  static constexpr int words = (deep + 3) / 4; // of 32 keys
  static_assert(deep % 2 == 0, "columns are 16 and more");
  u32 bits[2][words]; // of a row, from the lane's columns on

  /// Four lanes that share a row have a part of each 32 of its keys, or of the last 16.
  template <class Scores> KILN_DEVICE void read(const Scores& scores, int row, int first) {
    const int lane = thread_index() % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int word = 0; word < words; ++word) {
        const int query = row + 8 * r, key = first + 32 * word;
        const u32 part = deep - 4 * word >= 4
                             ? open_neighbours<8>(scores, query, key + 8 * lane) << 8 * lane
                             : open_neighbours<4>(scores, query, key + 4 * lane) << 4 * lane;
        bits[r][word] = either_lane(either_lane(part, 1), 2) >> 2 * lane;
      }
  }
  /// Of column i of the thread's two in the n-th eight, of its row r.
  KILN_DEVICE bool has(int n, int i, int r) const {
    return (bits[r][n / 4] >> (n % 4 * 8 + i) & 1) != 0;
  }
};
template <int deep> struct OpenPlaces<true, deep> {
  static constexpr int pairs = (deep + 7) / 8; // of 32 queries
  static_assert(deep % 2 == 0, "columns are 16 and more");
  u32 bits[pairs][4][2]; // of a column, from the lane's row on; 16 bits for each half of a pair

  /// A lane has the warp's 16 keys of one query of 32.
  template <class Scores> KILN_DEVICE void read(const Scores& scores, int row, int first) {
    const int lane = thread_index() % 32, key = row - lane / 4;
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair) {
      u32 both = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (const int left = 8 * deep - 64 * pair - 32 * half; left >= 32 || lane < left)
          both |= open_neighbours<16>(scores, first + 64 * pair + 32 * half + lane, key)
                  << 16 * half;
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          bits[pair][n][i] = of_lane(both, 8 * n + lane % 4 * 2 + i) >> lane / 4;
    }
  }
  KILN_DEVICE bool has(int n, int i, int r) const {
    return (bits[n / 8][n % 4][i] >> (n / 4 % 2 * 16 + 8 * r) & 1) != 0;
  }
};

/// What is open of a tile, where the mask is of queries too; else nobody asks.
template <bool transposed, int deep, class Scores>
KILN_DEVICE OpenPlaces<transposed, deep> read_places(const Scores& scores, int row, int first) {
  OpenPlaces<transposed, deep> places;
  if (scores.masks_places())
    places.read(scores, row, first);
  return places;
}
/// Hides the places that are not.
template <bool transposed, int deep>
KILN_DEVICE void hide_closed(float (&x)[deep][4], const OpenPlaces<transposed, deep>& places) {
#pragma unroll
  for (int n = 0; n < deep; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!places.has(n, i % 2, i / 2))
        x[n][i] = -infinity();
}

} // namespace kiln
