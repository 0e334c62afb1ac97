// The largest element of a row and the sum of exp(element - largest), taken together while the row
// still arrives: a sum so far is scaled when a larger element comes (Milakov, Gimelshein, "Online
// normalizer calculation for softmax", 2018, algorithm 3).
#pragma once

#include "reduce.cuh"

namespace kiln {

/// Chunk c with `outside` where an element is not the row's.
template <class Tile, class T>
KILN_DEVICE Vec<T, Tile::vector> filled(const Tile& at, const Shared<Tile, T>& tile, int r, int c,
                                        float outside) {
  Vec<T, Tile::vector> v = tile.get(r, c);
  if constexpr (Tile::overlaps)
    if (!at.whole(c))
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i)
        if (!at.holds(c, i))
          v[i] = T(outside);
  return v;
}

/// A thread's own largest element of each row, -inf at first, and its own sum, 0 at first. `load`
/// started the tile as so many parts, and no copies are started in between. NaN and +inf make the
/// sum NaN; where all is -inf it is 0, until it is scaled to the row's largest.
template <int parts, int part = 0, class Tile, class T>
KILN_DEVICE void combine_exponentials(const Tile& at, const Shared<Tile, T>& tile,
                                      float (&largest)[Tile::rows], float (&sum)[Tile::rows]) {
  constexpr int first = first_chunk<Tile>(part, parts), last = first_chunk<Tile>(part + 1, parts);
  constexpr int at_once = Tile::chunks > 16 ? 4 : Tile::chunks; // else the text grows with the row
  wait_for_copies_but<parts - 1 - part>();
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    float most = largest[r];
#pragma unroll at_once
    for (int c = first; c < last; ++c)
      if (at.has(c))
        most = Max::combine(most, combine_vector<Max>(filled(at, tile, r, c, Max::identity())));
    const float base = most == Max::identity() ? 0.0f : most;
    if constexpr (part > 0)
      sum[r] *= fast_exp(largest[r] - base);
    largest[r] = most;
#pragma unroll at_once
    for (int c = first; c < last; ++c)
      if (at.has(c)) {
        const auto v = filled(at, tile, r, c, Max::identity());
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i)
          sum[r] += fast_exp(float(v[i]) - base);
      }
  }
  if constexpr (part + 1 < parts)
    combine_exponentials<parts, part + 1>(at, tile, largest, sum);
}

} // namespace kiln
