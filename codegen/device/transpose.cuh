// Tensors that a block walks along their last dimension but that lie with the rows as neighbours: a
// channel-first result, say. Single elements of a column would cost a whole sector each, so a tile
// of them passes through shared memory: threads are dealt to neighbouring rows where they meet
// global memory, and to neighbouring columns where they compute. A barrier lies between the two.
#pragma once

#include "move.cuh"

namespace kiln {

template <class Tile, class T> struct Transposed {
  /// Columns that shared memory moves at once.
  static constexpr int unit = Tile::vector * sizeof(T) > 16 ? 16 / sizeof(T) : Tile::vector;
  static constexpr int units = Tile::columns / unit;
  /// Elements between rows: an odd number of units, so that neighbouring rows share no bank.
  static constexpr int stride = (units | 1) * unit;
  static constexpr int bytes = Tile::rows_per_block * stride * sizeof(T);
  static_assert(!Tile::overlaps, "rows are neighbours, so vectors cannot overlap their ends");

  const Tile& at;
  T* memory; // (rows_per_block, stride)

  KILN_DEVICE Transposed(const Tile& at, char* place)
      : at(at), memory(reinterpret_cast<T*>(place)) {}

  KILN_DEVICE T* chunk(int r, int c) const {
    return memory + at.local_row(r) * stride + at.column(c);
  }
  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const {
    Vec<T, Tile::vector> v = {};
    if (at.has(c))
      v = load_shared_vector<Tile::vector>(chunk(r, c));
    return v;
  }
  /// Rounds to the type stored.
  template <class From> KILN_DEVICE void set(int r, int c, const Vec<From, Tile::vector>& v) {
    if (!at.has(c))
      return;
    const auto rounded = convert<T>(v);
#pragma unroll
    for (int i = 0; i < Tile::vector; i += unit) {
      Vec<T, unit> part;
#pragma unroll
      for (int j = 0; j < unit; ++j)
        part[j] = rounded[i + j];
      store_shared(chunk(r, c) + i, part);
    }
  }

  /// Visits each unit of each row of the tile once, neighbouring rows by neighbouring threads:
  /// `visit(row of the block, first column, place)`.
  template <class Visit> KILN_DEVICE void each(Visit visit) const {
#pragma unroll(unit < 4 ? 4 : 2)
    for (int i = thread_index(); i < units * Tile::rows_per_block; i += Tile::threads) {
      const int row = i % Tile::rows_per_block, column = i / Tile::rows_per_block * unit;
      visit(row, column, memory + row * stride + column);
    }
  }
};

/// Fills the tile from global memory. Rows past the end repeat the last one.
template <class Tile, class T, int rank>
KILN_DEVICE void load_transposed(const Tile& at, const Transposed<Tile, T>& to, const T* from,
                                 const RowMap<rank>& map) {
  constexpr int unit = Transposed<Tile, T>::unit;
  to.each([&](int row, int column, T* place) {
    const u32 last = at.count - 1 - at.base;
    const T* source = from + map.offset(at.base + (u32(row) < last ? u32(row) : last)) +
                      column * map.column_stride;
    Vec<T, unit> v;
#pragma unroll
    for (int j = 0; j < unit; ++j)
      v[j] = load_global<Vec<T, 1>>(source + j * map.column_stride)[0];
    store_shared(place, v);
  });
}

/// Writes the tile to global memory.
template <class Tile, class T, int rank>
KILN_DEVICE void store_transposed(const Tile& at, const Transposed<Tile, T>& from, T* to,
                                  const RowMap<rank>& map) {
  constexpr int unit = Transposed<Tile, T>::unit;
  from.each([&](int row, int column, const T* place) {
    if (at.base + row >= at.count)
      return;
    T* target = to + map.offset(at.base + row) + column * map.column_stride;
    const auto v = load_shared<Vec<T, unit>>(place);
#pragma unroll
    for (int j = 0; j < unit; ++j)
      store_global(target + j * map.column_stride, Vec<T, 1>{{v[j]}});
  });
}

} // namespace kiln
