// Between global memory and a thread's part of a tile. A value that is kept for a whole tile
// lives in registers, in the thread's own slots of shared memory (no barrier is needed: a thread
// reads only what it wrote), or only in global memory, where each pass reads it again. `access`
// elements are moved at once; it divides the vector.
#pragma once

#include "tile.cuh"

namespace kiln {

template <class Tile, class T> struct Registers {
  Vec<T, Tile::vector> data[Tile::rows][Tile::chunks];
  KILN_DEVICE Vec<T, Tile::vector> get(int r, int c) const { return data[r][c]; }
  KILN_DEVICE void set(int r, int c, const Vec<T, Tile::vector>& v) { data[r][c] = v; }
};

template <class Tile, class T> struct Shared {
  using V = Vec<T, Tile::vector>;
  static constexpr int bytes = sizeof(V) * Tile::rows * Tile::chunks * Tile::threads;
  static constexpr int parts = sizeof(V) > 16 ? sizeof(V) / 16 : 1;
  using Part = Vec<T, Tile::vector / parts>;
  char* slots; // (rows, chunks, parts, threads) of Part: neighbours never share a bank

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
  /// Starts to copy a vector from global memory, `access` elements at a time.
  template <int access> KILN_DEVICE void fetch(int r, int c, const T* from, i64 stride) {
    constexpr int part = Tile::vector / parts;
    constexpr int step = access < part ? access : part;
#pragma unroll
    for (int i = 0; i < Tile::vector; i += step) {
      char* to = slot(r, c, i / part) + i % part * sizeof(T);
      if constexpr (step * sizeof(T) >= 4)
        copy_to_shared<step * sizeof(T)>(to, from + i * stride);
      else
        store_shared(to, load_global<Vec<T, step>>(from + i * stride));
    }
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
/// What is one access is not taken apart: a loop over its elements costs the compiler time.
template <int count, int access, class T>
KILN_DEVICE Vec<T, count> load_vector(const T* from, i64 stride = 1) {
  constexpr int step = access * sizeof(T) > 16 ? 16 / sizeof(T) : access;
  if constexpr (step == count) {
    return load_global<Vec<T, count>>(from);
  } else {
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
}
template <int count, class T> KILN_DEVICE Vec<T, count> load_shared_vector(const T* from) {
  constexpr int step = count * sizeof(T) > 16 ? 16 / sizeof(T) : count;
  Vec<T, count> v;
#pragma unroll
  for (int i = 0; i < count; i += step) {
    const auto part = load_shared<Vec<T, step>>(from + i);
#pragma unroll
    for (int j = 0; j < step; ++j)
      v[i + j] = part[j];
  }
  return v;
}
template <class T, int count> KILN_DEVICE void store_shared_vector(T* to, const Vec<T, count>& v) {
  constexpr int step = count * sizeof(T) > 16 ? 16 / sizeof(T) : count;
#pragma unroll
  for (int i = 0; i < count; i += step) {
    Vec<T, step> part;
#pragma unroll
    for (int j = 0; j < step; ++j)
      part[j] = v[i + j];
    store_shared(to + i, part);
  }
}
template <int access, class T, int count>
KILN_DEVICE void store_vector(T* to, const Vec<T, count>& v, i64 stride = 1) {
  constexpr int step = access * sizeof(T) > 16 ? 16 / sizeof(T) : access;
  if constexpr (step == count) {
    store_global(to, v);
  } else {
#pragma unroll
    for (int i = 0; i < count; i += step) {
      Vec<T, step> part;
#pragma unroll
      for (int j = 0; j < step; ++j)
        part[j] = v[i + j];
      store_global(to + i * stride, part);
    }
  }
}

/// Which column a column reads: pairs of neighbours, or of the two halves, of the first `width`.
template <int width> struct Neighbours {
  static constexpr bool adjacent = true;
  KILN_DEVICE static int of(int column) { return column < width ? column ^ 1 : column; }
};
template <int width> struct Halves {
  static constexpr bool adjacent = false;
  KILN_DEVICE static int of(int column) {
    return column < width / 2 ? column + width / 2 : column < width ? column - width / 2 : column;
  }
};
/// Memory that is read at the partner of each column.
template <class Pairs, class T> struct Paired {
  const T* from;
  KILN_DEVICE Paired operator+(i64 offset) const { return {from + offset}; }
};

/// `count` columns of a row from `column` on.
template <int count, int access, class T>
KILN_DEVICE Vec<T, count> load_row(const T* row, int column, i64 stride) {
  return load_vector<count, access>(row + column * stride, stride);
}
/// `access` columns have neighbouring partners; those of neighbours lie in the same vector.
template <int count, int access, class Pairs, class T>
KILN_DEVICE Vec<T, count> load_row(const Paired<Pairs, T>& row, int column, i64 stride) {
  Vec<T, count> v;
  if constexpr (Pairs::adjacent && count > 1) {
    const auto plain = load_row<count, access>(row.from, column, stride);
#pragma unroll
    for (int i = 0; i < count; ++i)
      v[i] = Pairs::of(column + i) == column + i ? plain[i] : plain[i ^ 1];
  } else {
#pragma unroll
    for (int i = 0; i < count; i += access) {
      const auto part = load_row<access, access>(row.from, Pairs::of(column + i), stride);
#pragma unroll
      for (int j = 0; j < access; ++j)
        v[i + j] = part[j];
    }
  }
  return v;
}

/// A chunk that hangs over the end of the tensor: what the row has of it, the rest is zero.
template <class Tile, class T>
KILN_DEVICE Vec<T, Tile::vector> load_edge(const Tile& at, int c, const T* row) {
  Vec<T, Tile::vector> v = {};
#pragma unroll
  for (int i = 0; i < Tile::vector; ++i)
    if (at.holds(c, i))
      v[i] = load_global<Vec<T, 1>>(row + at.column(c) + i)[0];
  return v;
}

/// Chunk c of a row; where it overlaps an end, elements of the neighbour are read with it.
template <int access, class Tile, class From>
KILN_DEVICE auto load_chunk(const Tile& at, int c, const From& row, i64 column_stride) {
  decltype(load_row<Tile::vector, access>(row, 0, column_stride)) v = {};
  if (at.readable(c))
    v = load_row<Tile::vector, access>(row, at.column(c), column_stride);
  else if constexpr (Tile::overlaps)
    v = load_edge(at, c, row);
  return v;
}

/// Fills `to` with this thread's part of the tile. Chunks past the end become zero; rows past
/// the end repeat the last row and must not be stored or summed.
template <int access, class Tile, class Keep, class From, int rank>
KILN_DEVICE void load(const Tile& at, Keep& to, const From& from, const RowMap<rank>& map) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const auto row = from + map.offset(at.row_to_read(r));
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c)
      to.set(r, c, load_chunk<access>(at, c, row, map.column_stride));
  }
}

/// The first chunk of a part of the rows, 0 <= part <= parts.
template <class Tile> KILN_DEVICE constexpr int first_chunk(int part, int parts) {
  return Tile::chunks * part / parts;
}

/// The same into shared memory, without passing through registers: complete after
/// wait_for_copies(). Each of `parts` is a group of copies, if there are several.
template <int access, int parts = 1, int part = 0, class Tile, class T, int rank>
KILN_DEVICE void load(const Tile& at, Shared<Tile, T>& to, const T* from, const RowMap<rank>& map) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const T* row = from + map.offset(at.row_to_read(r));
#pragma unroll
    for (int c = first_chunk<Tile>(part, parts); c < first_chunk<Tile>(part + 1, parts); ++c)
      if (at.readable(c))
        to.template fetch<access>(r, c, row + at.column(c) * map.column_stride, map.column_stride);
      else if constexpr (Tile::overlaps)
        to.set(r, c, load_edge(at, c, row));
      else
        to.set(r, c, {});
  }
  if constexpr (parts > 1)
    end_copies();
  if constexpr (part + 1 < parts)
    load<access, parts, part + 1>(at, to, from, map);
}

/// A tile that is kept nowhere.
template <int access, class Tile, class From, int rank> struct Reread {
  const Tile& at;
  From from;
  RowMap<rank> map;
  KILN_DEVICE auto get(int r, int c) const {
    const auto row = from + map.offset(at.row_to_read(r));
    return load_chunk<access>(at, c, row, map.column_stride);
  }
};
template <int access, class Tile, class From, int rank>
KILN_DEVICE Reread<access, Tile, From, rank> reread(const Tile& at, const From& from,
                                                    const RowMap<rank>& map) {
  return {at, from, map};
}

/// One value a row, the same in all lanes of the row.
template <class Tile, class T, class To, int rank>
KILN_DEVICE void load_rows(const Tile& at, To (&to)[Tile::rows], const T* from,
                           const RowMap<rank>& map) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    to[r] = To(load_global<Vec<T, 1>>(from + map.offset(at.row_to_read(r)))[0]);
}

/// What a row has where it has no such element.
template <class T> KILN_DEVICE T missing() {
  if constexpr (is_half<T>)
    return T(bits_to_float(0x7fc00000u));
  else if constexpr (same_type<T, float>)
    return bits_to_float(0x7fc00000u);
  else
    return T(0);
}

/// One element a row, chosen by its index.
template <class Tile, class T, class To, class Index, int rank>
KILN_DEVICE void pick_rows(const Tile& at, To (&to)[Tile::rows], const T* from,
                           const RowMap<rank>& map, const Index (&index)[Tile::rows]) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const T* row = from + map.offset(at.row_to_read(r));
    to[r] = missing<To>();
    if (u64(index[r]) < u64(Tile::columns))
      to[r] = To(load_global<Vec<T, 1>>(row + index[r] * map.column_stride)[0]);
  }
}

/// Writes chunk c of row r, rounding to the type stored.
template <int access, class Tile, class T, class From, int rank>
KILN_DEVICE void store(const Tile& at, int r, int c, T* to, const RowMap<rank>& map,
                       const Vec<From, Tile::vector>& v) {
  if (!at.valid(r))
    return;
  T* row = to + map.offset(at.row(r));
  const auto rounded = convert<T>(v);
  if (at.whole(c))
    store_vector<access>(row + at.column(c) * map.column_stride, rounded, map.column_stride);
  else if constexpr (Tile::overlaps)
#pragma unroll
    for (int i = 0; i < Tile::vector; ++i)
      if (at.holds(c, i))
        store_global(row + at.column(c) + i, Vec<T, 1>{{rounded[i]}});
}

/// Bytes of scratch that one staged value a row needs; 0 if rows are stored directly: few of them,
/// or those of a cluster, of whose blocks only the first has the lanes that would stage them.
template <class Tile> KILN_DEVICE constexpr int staged_row_bytes() {
  return Tile::rows_per_block < 8 || Tile::cluster > 1 ? 0 : 8;
}

/// Bytes of scratch that stage_rows of `values` values needs.
template <class Tile> KILN_DEVICE constexpr int staged_rows_bytes(int values) {
  return values * Tile::rows_per_block * staged_row_bytes<Tile>();
}

/// Where the i-th value of a row of the block is staged.
template <class Tile> KILN_DEVICE char* staged_row(char* scratch, int i, int row) {
  return scratch + (i * Tile::rows_per_block + row) * staged_row_bytes<Tile>();
}

/// Values of rows pass through shared memory, so that neighbouring threads write neighbouring
/// rows: whole sectors, where single values would cost several times their bytes. Between
/// stage_rows and store_rows, and before `scratch` is used again, lies a barrier.
template <class Tile, class... Values>
KILN_DEVICE void stage_rows(const Tile& at, char* scratch, const Values&... values) {
  if constexpr (staged_row_bytes<Tile>() > 0) {
    int i = 0;
    auto stage = [&](const auto& value) {
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r)
        if (at.lane == r % Tile::lanes)
          store_shared(staged_row<Tile>(scratch, i, at.local_row(r)), value[r]);
      ++i;
    };
    (stage(values), ...);
  }
}

/// Where one value a row goes.
template <class T, int rank, class From, int rows> struct RowStore {
  T* to;
  RowMap<rank> map;
  const From (&value)[rows];

  KILN_DEVICE void store(u32 row, From v) const {
    store_global(to + map.offset(row), convert<T>(Vec<From, 1>{{v}}));
  }
  KILN_DEVICE void store_staged(u32 row, const char* slot) const {
    store(row, load_shared<From>(slot));
  }
};
template <class T, int rank, class From, int rows>
RowStore(T*, RowMap<rank>, const From (&)[rows]) -> RowStore<T, rank, From, rows>;

/// Writes values of rows: what stage_rows laid out in the same order, or, where rows are few, each
/// by the first lane of its row.
template <class Tile, class... Stores>
KILN_DEVICE void store_rows(const Tile& at, char* scratch, const Stores&... stores) {
  if constexpr (staged_row_bytes<Tile>() == 0) {
    auto direct = [&](const auto& s) {
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r)
        if (at.lane == 0 && at.valid(r))
          s.store(at.row(r), s.value[r]);
    };
    (direct(stores), ...);
  } else {
    int i = 0;
    auto staged = [&](const auto& s) { // each value by other threads, as far as they go round
      const int first =
          (thread_index() + Tile::threads - i * Tile::rows_per_block % Tile::threads) %
          Tile::threads;
      each_share<Tile::rows_per_block, Tile::threads>(first, [&](int row) {
        if (at.base + row < at.count)
          s.store_staged(at.base + row, staged_row<Tile>(scratch, i, row));
      });
      ++i;
    };
    (staged(stores), ...);
  }
}

} // namespace kiln
