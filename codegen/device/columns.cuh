// Tensors that are the same for every row, weights above all: read from global memory where they
// are needed, or from a copy in shared memory that each block makes once.
#pragma once

#include "move.cuh"

namespace kiln {

/// Chunk c of a tensor that is the same for every row.
template <int access, class Tile, class From>
KILN_DEVICE auto load_columns(const Tile& at, int c, const From& from, i64 column_stride = 1) {
  return load_row<Tile::vector, access>(from, at.column(c), column_stride);
}

/// Bytes that stage_columns needs.
template <class Tile, class T> KILN_DEVICE constexpr int staged_columns_bytes() {
  return (Tile::overlaps ? Tile::threads * Tile::chunks * Tile::vector : Tile::columns) * sizeof(T);
}

/// Starts to copy such a tensor into shared memory, dense, and returns where. It may be read after
/// wait_for_copies() and a barrier.
template <class Tile, int access, class T>
KILN_DEVICE const T* stage_columns(char* memory, const T* from, i64 column_stride = 1) {
  constexpr int step = access * sizeof(T) > 16 ? 16 / sizeof(T) : access;
  T* to = reinterpret_cast<T*>(memory);
// A loop even for one place a thread: conditional copies alone would be moved behind the
// reductions.
#pragma unroll 1
  for (int column = thread_index() * step; column < Tile::columns; column += Tile::threads * step)
    if constexpr (step * sizeof(T) >= 4)
      copy_to_shared<step * sizeof(T)>(to + column, from + column * column_stride);
    else
      store_shared(to + column, load_global<Vec<T, step>>(from + column * column_stride));
  return to;
}
/// Chunk c of what stage_columns copied.
template <class Tile, class T>
KILN_DEVICE Vec<T, Tile::vector> staged_columns(const Tile& at, int c, const T* from) {
  return load_shared_vector<Tile::vector>(from + at.column(c));
}

/// The same in registers, where a thread has the same columns of all its rows: those of `at`.
/// Vectors that overlap the ends of rows have any of the row's columns there.
template <class Tile, class T> struct HeldColumns {
  Vec<T, Tile::vector> data[Tile::chunks];

  KILN_DEVICE HeldColumns(const Tile& at, const T* from, i64 column_stride = 1) {
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c)
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        const int column = at.column(c) + i, last = Tile::columns - 1;
        const int inside = column < 0 ? 0 : column < last ? column : last;
        data[c][i] = load_global<Vec<T, 1>>(from + inside * column_stride)[0];
      }
  }
};
template <class Tile, class T>
KILN_DEVICE Vec<T, Tile::vector> staged_columns(const Tile&, int c,
                                                const HeldColumns<Tile, T>& held) {
  return held.data[c];
}

/// The same for the rows of `at` and all that have its shift: each group has a copy of its own, in
/// which its vectors are those of memory, in pieces of 16 bytes: neighbours never share a bank.
template <class Tile, class T> struct SteadyColumns {
  static constexpr int parts = sizeof(T) * Tile::vector > 16 ? sizeof(T) * Tile::vector / 16 : 1;
  static constexpr int part = Tile::vector / parts;
  static constexpr int places = Tile::chunks * Tile::lanes * Tile::vector; // of a group
  /// Of part p of a lane's chunk c.
  static KILN_DEVICE int at(int c, int lane, int p) {
    return ((c * parts + p) * Tile::lanes + lane) * part;
  }
};
/// One by one, which takes fewest registers.
template <int columns, int lanes, int vector, int threads, class T>
KILN_DEVICE const T* stage_columns(const SteadyTile<columns, lanes, vector, threads, 0>& at,
                                   char* memory, const T* from, i64 column_stride = 1) {
  using Columns = SteadyColumns<SteadyTile<columns, lanes, vector, threads, 0>, T>;
  T* group = reinterpret_cast<T*>(memory) + at.group * Columns::places;
#pragma unroll 1
  for (int place = at.lane; place < Columns::places; place += lanes) {
    const int column = place - at.shift, chunk = place / vector, i = place % vector;
    T* to =
        group + Columns::at(chunk / lanes, chunk % lanes, i / Columns::part) + i % Columns::part;
    if (u32(column) >= u32(columns))
      store_shared(to, T{});
    else if constexpr (sizeof(T) >= 4)
      copy_to_shared<sizeof(T)>(to, from + column * column_stride);
    else
      store_shared(to, load_global<Vec<T, 1>>(from + column * column_stride)[0]);
  }
  return group;
}
/// Of rows that a ring brings all of a chunk at once, a constant apart.
template <int columns, int lanes, int vector, int threads, int movers, class T>
KILN_DEVICE const T* stage_columns(const SteadyTile<columns, lanes, vector, threads, movers>& at,
                                   char* memory, const T* from, i64 column_stride = 1) {
  using Columns = SteadyColumns<SteadyTile<columns, lanes, vector, threads, movers>, T>;
  T* group = reinterpret_cast<T*>(memory) + at.group * Columns::places;
  const auto slot = [&](int c, int place) { // of the vectors of a chunk
    const int i = place % vector;
    return group + Columns::at(c, place / vector, i / Columns::part) + i % Columns::part;
  };
#pragma unroll 1
  for (int c = 0; c < Columns::places / (lanes * vector); ++c) {
    T* const first = slot(c, at.lane);
    T* to[vector];
    const T* source[vector];
#pragma unroll
    for (int k = 0; k < vector; ++k) { // neighbours copy neighbours
      to[k] = lanes < vector ? slot(c, at.lane + k * lanes)
                             : first + k * (lanes / vector) * Columns::part;
      const int column = (c * vector + k) * lanes + at.lane - at.shift, last = columns - 1;
      source[k] = from + (column < 0 ? 0 : column < last ? column : last) * column_stride;
    }
    if constexpr (sizeof(T) >= 4) {
#pragma unroll
      for (int k = 0; k < vector; ++k)
        copy_to_shared<sizeof(T)>(to[k], source[k]);
    } else {
      T value[vector]; // all asked for before the first is there
#pragma unroll
      for (int k = 0; k < vector; ++k)
        value[k] = load_global<Vec<T, 1>>(source[k])[0];
#pragma unroll
      for (int k = 0; k < vector; ++k)
        store_shared(to[k], value[k]);
    }
  }
  return group;
}
template <int columns, int lanes, int vector, int threads, int movers, class T>
KILN_DEVICE Vec<T, vector>
staged_columns(const SteadyTile<columns, lanes, vector, threads, movers>& at, int c,
               const T* group) {
  using Columns = SteadyColumns<SteadyTile<columns, lanes, vector, threads, movers>, T>;
  Vec<T, vector> v;
#pragma unroll
  for (int p = 0; p < Columns::parts; ++p) {
    const auto part = load_shared<Vec<T, Columns::part>>(group + Columns::at(c, at.lane, p));
#pragma unroll
    for (int j = 0; j < Columns::part; ++j)
      v[p * Columns::part + j] = part[j];
  }
  return v;
}

} // namespace kiln
