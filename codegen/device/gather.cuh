// Rows of a table by their numbers. A number outside the table reads nothing: its row is NaN.
#pragma once

#include "move.cuh"

namespace kiln {

/// The rows that a thread's rows name, read where they are used.
template <int access, class Tile, class T, class Index> struct GatheredTile {
  const Tile& at;
  const T* table;
  const Index (&index)[Tile::rows];
  i64 count, stride, column_stride;

  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const {
    Vec<T, Tile::vector> v = {};
    if (!at.has(c))
      return v;
    const i64 row = index[r];
    if (u64(row) < u64(count)) // a negative number is larger than any count
      return load_vector<Tile::vector, access>(table + row * stride + at.column(c) * column_stride,
                                               column_stride);
#pragma unroll
    for (int i = 0; i < Tile::vector; ++i)
      v[i] = T(bits_to_float(0x7fc00000u));
    return v;
  }
};
template <int access, class Tile, class T, class Index>
KILN_DEVICE GatheredTile<access, Tile, T, Index>
gathered(const Tile& at, const T* table, const Index (&index)[Tile::rows], i64 count, i64 stride,
         i64 column_stride = 1) {
  return {at, table, index, count, stride, column_stride};
}

/// Fills `to` with this thread's part of them.
template <class Tile, class Keep, int access, class T, class Index>
KILN_DEVICE void load(const Tile&, Keep& to, const GatheredTile<access, Tile, T, Index>& rows) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c)
      to.set(r, c, rows.get(r, c));
}

} // namespace kiln
