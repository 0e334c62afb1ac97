// Random numbers without a state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) turns a key
// and a counter into four words, four numbers of 32 bits or eight of 16. The key is the seed; the
// counter holds the offset and the element's place in its tensor, divided by four or eight. So no
// schedule changes a number, and a backward that computes it again gets the same.
// dialect/Random.cpp is the same for references.
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

/// Number `i` of `bits` bits among those of four words, in the upper bits of a word.
template <int bits> KILN_DEVICE u32 number_of(const Vec<u32, 4>& words, int i) {
  constexpr int of_word = 32 / bits;
  return words[i / of_word] >> i % of_word * bits << (32 - bits);
}

/// The numbers of `count` neighbours from `index`, a multiple of `count` or of what a counter
/// makes. All that a counter makes cost as much as one.
template <class T, int bits, int count>
KILN_DEVICE Vec<T, count> random_vector(u64 seed, u64 offset, i64 index) {
  constexpr int of_counter = 128 / bits, counters = count < of_counter ? 1 : count / of_counter;
  Vec<u32, 4> words[counters];
#pragma unroll
  for (int q = 0; q < counters; ++q) {
    const u64 place = u64(index) / of_counter + q;
    words[q] = {{u32(place), u32(place >> 32), u32(offset), u32(offset >> 32)}};
  }
  philox(seed, words);
  const u32 begin = u32(index) % of_counter * bits; // the bit of the counter's where they begin
  auto& w = words[0]; // of a part the words are selected, not indexed: they are registers
  if (count * bits <= 64 && begin & 64)
    w = {{w[2], w[3]}};
  if (count * bits <= 32 && begin & 32)
    w[0] = w[1];
  if (count * bits <= 16 && begin & 16)
    w[0] >>= 16;
  Vec<T, count> numbers;
#pragma unroll
  for (int i = 0; i < count; ++i)
    numbers[i] = from_word<T>(number_of<bits>(words[i / of_counter], i % of_counter));
  return numbers;
}

/// A tile of numbers that is computed where it is read, in place of Registers or Shared. Rows
/// start at multiples of their width, vectors of a row at multiples of theirs.
template <class Tile, class T, int bits, int rank> struct RandomTile {
  const Tile& at;
  RowMap<rank> map;
  u64 seed, offset;
  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const {
    return random_vector<T, bits, Tile::vector>(seed, offset, map.offset(at.row(r)) + at.column(c));
  }
};
template <class T, int bits, class Tile, int rank>
KILN_DEVICE RandomTile<Tile, T, bits, rank> random_tile(const Tile& at, const RowMap<rank>& map,
                                                        u64 seed, u64 offset) {
  return {at, map, seed, offset};
}

/// One number a row, the same in all lanes of the row.
template <int bits, class Tile, class T, int rank>
KILN_DEVICE void random_rows(const Tile& at, T (&to)[Tile::rows], const RowMap<rank>& map, u64 seed,
                             u64 offset) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    to[r] = random_vector<T, bits, 1>(seed, offset, map.offset(at.row(r)))[0];
}

} // namespace kiln
