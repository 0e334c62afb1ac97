// Between global memory and a thread's part of a tile. A value that is kept for a whole tile
// lives in registers or in the thread's own slots of shared memory (no barrier is needed: a
// thread reads only what it wrote). `access` elements are moved at once; it divides the vector.
#pragma once

#include "tile.cuh"

namespace kiln {

template <class Tile, class T>
struct Registers {
  Vec<T, Tile::vector> data[Tile::rows][Tile::chunks];
  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const { return data[r][c]; }
  KILN_DEVICE void set(int r, int c, const Vec<T, Tile::vector>& v) { data[r][c] = v; }
};

template <class Tile, class T>
struct Shared {
  using V = Vec<T, Tile::vector>;
  static constexpr int bytes = sizeof(V) * Tile::rows * Tile::chunks * Tile::threads;
  static constexpr int parts = sizeof(V) > 16 ? sizeof(V) / 16 : 1;
  using Part = Vec<T, Tile::vector / parts>;
  char* slots;  // (rows, chunks, parts, threads) of Part: neighbours never share a bank

  KILN_DEVICE explicit Shared(char* memory) : slots(memory) {}
  KILN_DEVICE char* slot(int r, int c, int p) const {
    return slots +
           (((r * Tile::chunks + c) * parts + p) * Tile::threads + thread_index()) * sizeof(Part);
  }
  KILN_DEVICE V get(int r, int c) const {
    V v;
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      const Part part = load_shared<Part>(slot(r, c, p));
#pragma unroll
      for (int i = 0; i < Tile::vector / parts; ++i)
        v[p * (Tile::vector / parts) + i] = part[i];
    }
    return v;
  }
  KILN_DEVICE void set(int r, int c, const V& v) {
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      Part part;
#pragma unroll
      for (int i = 0; i < Tile::vector / parts; ++i)
        part[i] = v[p * (Tile::vector / parts) + i];
      store_shared(slot(r, c, p), part);
    }
  }
};

/// `count` neighbouring elements, `access` at a time (more than 16 bytes take several accesses).
template <int count, int access, class T>
KILN_DEVICE Vec<T, count> load_vector(const T* from, i64 stride = 1) {
  constexpr int step = access * sizeof(T) > 16 ? 16 / sizeof(T) : access;
  Vec<T, count> v;
#pragma unroll
  for (int i = 0; i < count; i += step) {
    const auto part = load_global<Vec<T, step>>(from + i * stride);
#pragma unroll
    for (int j = 0; j < step; ++j)
      v[i + j] = part[j];
  }
  return v;
}
template <int access, class T, int count>
KILN_DEVICE void store_vector(T* to, const Vec<T, count>& v, i64 stride = 1) {
  constexpr int step = access * sizeof(T) > 16 ? 16 / sizeof(T) : access;
#pragma unroll
  for (int i = 0; i < count; i += step) {
    Vec<T, step> part;
#pragma unroll
    for (int j = 0; j < step; ++j)
      part[j] = v[i + j];
    store_global(to + i * stride, part);
  }
}

/// Fills `to` with this thread's part of the tile; rows and chunks past the end become zero.
template <int access, class Tile, class Keep, class T, int rank>
KILN_DEVICE void load(const Tile& at, Keep& to, const T* from, const RowMap<rank>& map) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const i64 row = map.offset(at.row(r));
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
      Vec<T, Tile::vector> v = {};
      if (at.valid(r) && at.has(c))
        v = load_vector<Tile::vector, access>(from + row + at.column(c) * map.column_stride,
                                              map.column_stride);
      to.set(r, c, v);
    }
  }
}

/// Chunk c of a tensor that is the same for every row.
template <int access, class Tile, class T>
KILN_DEVICE Vec<T, Tile::vector> load_columns(const Tile& at, int c, const T* from,
                                              i64 column_stride = 1) {
  return load_vector<Tile::vector, access>(from + at.column(c) * column_stride, column_stride);
}

/// One value a row, the same in all lanes of the row.
template <class Tile, class T, class To, int rank>
KILN_DEVICE void load_rows(const Tile& at, To (&to)[Tile::rows], const T* from,
                           const RowMap<rank>& map) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    to[r] = at.valid(r) ? To(load_global<Vec<T, 1>>(from + map.offset(at.row(r)))[0]) : To(T{});
}

/// Writes chunk c of row r, rounding to the type stored.
template <int access, class Tile, class T, class From, int rank>
KILN_DEVICE void store(const Tile& at, int r, int c, T* to, const RowMap<rank>& map,
                       const Vec<From, Tile::vector>& v) {
  if (at.valid(r))
    store_vector<access>(to + map.offset(at.row(r)) + at.column(c) * map.column_stride,
                         convert<T>(v), map.column_stride);
}

/// Writes one value a row. Lane r writes the r-th row, so that a warp writes its neighbouring
/// rows in as few instructions as there are rows beyond the lanes.
template <class Tile, class T, class From, int rank>
KILN_DEVICE void store_rows(const Tile& at, T* to, const RowMap<rank>& map,
                            const From (&value)[Tile::rows]) {
#pragma unroll
  for (int first = 0; first < Tile::rows; first += Tile::lanes) {
    const int r = first + at.lane;
    From mine = value[first];
#pragma unroll
    for (int i = 1; i < Tile::lanes && first + i < Tile::rows; ++i)
      mine = at.lane == i ? value[first + i] : mine;
    if (r < Tile::rows && at.valid(r))
      store_global(to + map.offset(at.row(r)), convert<T>(Vec<From, 1>{{mine}}));
  }
}

}  // namespace kiln
