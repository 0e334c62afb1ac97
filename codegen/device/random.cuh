// Random numbers without a state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) turns a key
// and a counter into four words. The key is the seed; the counter holds the offset and a quarter of
// the element's place in its tensor. So no schedule changes a number, and a backward that computes
// it again gets the same. dialect/Random.cpp is the same for references.
#pragma once

#include "tile.cuh"

namespace kiln {

/// Replaces each counter by its words, all under one key and side by side: a key of a round is
/// computed once for all.
template <int count> KILN_DEVICE void philox(u64 key, Vec<u32, 4> (&counters)[count]) {
  u32 k0 = u32(key), k1 = u32(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      Vec<u32, 4>& c = counters[i];
      const u64 a = u64(0xd2511f53u) * c[0], b = u64(0xcd9e8d57u) * c[2]; // one instruction each
      c = {{u32(b >> 32) ^ c[1] ^ k0, u32(b), u32(a >> 32) ^ c[3] ^ k1, u32(a)}};
    }
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
}

/// A word as the number that is asked for: a float in [0, 1) of 24 bits, or all bits.
template <class T> KILN_DEVICE T from_word(u32 word) {
  if constexpr (same_type<T, float>)
    return float(word >> 8) * 0x1p-24f;
  else
    return T(word);
}

/// The numbers of `count` neighbours from `index`, a multiple of `count` or of 4. Four of them
/// cost as much as one.
template <class T, int count>
KILN_DEVICE Vec<T, count> random_vector(u64 seed, u64 offset, i64 index) {
  constexpr int quads = count < 4 ? 1 : count / 4;
  Vec<u32, 4> words[quads];
#pragma unroll
  for (int q = 0; q < quads; ++q) {
    const u64 quarter = u64(index) / 4 + q;
    words[q] = {{u32(quarter), u32(quarter >> 32), u32(offset), u32(offset >> 32)}};
  }
  philox(seed, words);
  Vec<T, count> numbers;
  if constexpr (count >= 4) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      numbers[i] = from_word<T>(words[i / 4][i % 4]);
  } else { // the words are registers: they are selected, not indexed
    const auto& w = words[0];
    const u32 even = index & 2 ? w[2] : w[0], odd = index & 2 ? w[3] : w[1];
    if constexpr (count == 2)
      numbers = {{from_word<T>(even), from_word<T>(odd)}};
    else
      numbers[0] = from_word<T>(index & 1 ? odd : even);
  }
  return numbers;
}

/// A tile of numbers that is computed where it is read, in place of Registers or Shared. Rows
/// start at multiples of their width, vectors of a row at multiples of theirs.
template <class Tile, class T, int rank> struct RandomTile {
  const Tile& at;
  RowMap<rank> map;
  u64 seed, offset;
  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const {
    return random_vector<T, Tile::vector>(seed, offset, map.offset(at.row(r)) + at.column(c));
  }
};
template <class T, class Tile, int rank>
KILN_DEVICE RandomTile<Tile, T, rank> random_tile(const Tile& at, const RowMap<rank>& map, u64 seed,
                                                  u64 offset) {
  return {at, map, seed, offset};
}

/// One number a row, the same in all lanes of the row.
template <class Tile, class T, int rank>
KILN_DEVICE void random_rows(const Tile& at, T (&to)[Tile::rows], const RowMap<rank>& map, u64 seed,
                             u64 offset) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    to[r] = random_vector<T, 1>(seed, offset, map.offset(at.row(r)))[0];
}

} // namespace kiln
