// Reductions in a fixed order, so that results are bitwise the same from run to run.
// Along a row: lanes of a warp by shuffles, warps of a row through shared memory.
// Down the columns: each thread adds up the rows it saw, the block combines its groups, and a
// second small kernel adds the partial sums of all blocks (`partials`: one line a block).
#pragma once

#include "move.cuh"

namespace kiln {

struct Sum {
  static KILN_DEVICE float identity() { return 0.0f; }
  static KILN_DEVICE float combine(float a, float b) { return a + b; }
};
struct Max {
  static KILN_DEVICE float identity() { return bits_to_float(0xff800000u); }
  static KILN_DEVICE float combine(float a, float b) { return maximum(a, b); }
};
struct Min {
  static KILN_DEVICE float identity() { return bits_to_float(0x7f800000u); }
  static KILN_DEVICE float combine(float a, float b) { return minimum(a, b); }
};

/// Combines lanes `first`, 2 * `first`, ... up to `last` (exclusive) apart.
template <class Op, int first, int last> KILN_DEVICE float combine_lanes(float value) {
#pragma unroll
  for (int distance = last / 2; distance >= first; distance /= 2)
    value = Op::combine(value, shuffle_xor(value, distance));
  return value;
}

/// Combines what the warps of a group left in `slots`: a few one after another, many by shuffles.
template <class Op, int warps> KILN_DEVICE float combine_warps(const float* slots) {
  if constexpr (warps > 4) {
    const int lane = thread_index() % 32;
    const float mine = lane < warps ? load_shared<float>(slots + lane) : Op::identity();
    return combine_lanes<Op, 1, 32>(mine);
  } else {
    float total = load_shared<float>(slots);
#pragma unroll
    for (int w = 1; w < warps; ++w)
      total = Op::combine(total, load_shared<float>(slots + w));
    return total;
  }
}

/// Bytes of scratch that row_reduce of `values` values needs; 0 if a warp holds whole rows.
template <class Tile> constexpr int row_reduce_bytes(int values) {
  return Tile::warps_per_group > 1 ? values * Tile::rows * Tile::cluster * (Tile::threads / 32) * 4
                                   : 0;
}

/// Combines the lanes of each row; every lane gets the result. Several values share one barrier.
/// The caller sees to it that nobody still reads `scratch` from an earlier use, and that all blocks
/// of a cluster run: each hands what its warps have to the others, so that all read their own.
template <class Op, class Tile, class... Values>
KILN_DEVICE void row_reduce(const Tile& at, char* scratch, Values&... values) {
  constexpr int width = Tile::lanes < 32 ? Tile::lanes : 32;
  auto within_warp = [](float(&value)[Tile::rows]) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r)
      value[r] = combine_lanes<Op, 1, width>(value[r]);
  };
  (within_warp(values), ...);
  if constexpr (Tile::warps_per_group > 1) {
    constexpr int warps = Tile::cluster * Tile::threads / 32;
    const int warp = Tile::member() / 32;
    float* slots = reinterpret_cast<float*>(scratch); // (values, rows, warps)
    int index = 0;
    auto write = [&](float(&value)[Tile::rows]) {
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r)
        if (thread_index() % 32 == 0)
          store_cluster<Tile::cluster>(slots + (index * Tile::rows + r) * warps + warp, value[r]);
      ++index;
    };
    (write(values), ...);
    Tile::barrier();
    index = 0;
    auto read = [&](float(&value)[Tile::rows]) {
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r)
        value[r] = combine_warps<Op, Tile::warps_per_group>(
            slots + (index * Tile::rows + r) * warps + at.group * Tile::warps_per_group);
      ++index;
    };
    (read(values), ...);
  }
}

template <class Tile> using ColumnSums = float[Tile::chunks][Tile::vector];

/// Bytes of scratch that store_partial_columns needs; 0 if one warp's width covers the block.
template <class Tile> constexpr int partial_columns_bytes() {
  constexpr int teams = Tile::threads / (Tile::lanes < 32 ? 32 : Tile::lanes);
  return teams > 1 ? teams * Tile::columns * 4 : 0;
}

/// Adds the column sums of the block's groups and writes them to `partials` (columns).
template <class Tile>
KILN_DEVICE void store_partial_columns(const Tile& at, char* scratch, float* partials,
                                       ColumnSums<Tile>& sums) {
  constexpr int team_size = Tile::lanes < 32 ? 32 : Tile::lanes; // threads that span a row
  constexpr int teams = Tile::threads / team_size;
  const int team = thread_index() / team_size;
  const bool writes = thread_index() % team_size < Tile::lanes;
  float* slots = teams > 1 ? reinterpret_cast<float*>(scratch) : nullptr; // (teams, columns)
  if constexpr (teams > 1)
    Tile::barrier(); // nobody reads the scratch of an earlier use any more
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    Vec<float, Tile::vector> v;
#pragma unroll
    for (int i = 0; i < Tile::vector; ++i)
      v[i] = combine_lanes<Sum, Tile::lanes, 32>(sums[c][i]);
    if (!writes || !at.has(c))
      continue;
#pragma unroll
    for (int i = 0; i < Tile::vector; ++i) {
      if constexpr (teams > 1)
        store_shared(slots + team * Tile::columns + at.column(c) + i, v[i]);
      else
        store_global(partials + at.column(c) + i, v[i]);
    }
  }
  if constexpr (teams > 1) {
    Tile::barrier();
#pragma unroll 1 // runs once or twice a block: unrolling costs compile time only
    for (int column = thread_index(); column < Tile::columns; column += Tile::threads) {
      float total = 0.0f;
      for (int t = 0; t < teams; ++t)
        total += load_shared<float>(slots + t * Tile::columns + column);
      store_global(partials + column, total);
    }
  }
}

/// Adds one value a thread over the block and writes the sum to `partial`. 128 bytes of scratch.
template <class Tile>
KILN_DEVICE void store_partial_scalar(const Tile&, char* scratch, float* partial, float value) {
  float* slots = reinterpret_cast<float*>(scratch);
  value = combine_lanes<Sum, 1, 32>(value);
  Tile::barrier();
  if (thread_index() % 32 == 0)
    store_shared(slots + thread_index() / 32, value);
  Tile::barrier();
  if (thread_index() == 0) {
    float total = 0.0f;
    for (int warp = 0; warp < Tile::threads / 32; ++warp)
      total += load_shared<float>(slots + warp);
    store_global(partial, total);
  }
}

/// The second kernel: each block adds up 32 neighbouring columns of all `lines`, 8 threads times
/// 4 columns, `threads` / 8 slices of the lines. `stride`, a multiple of 4, separates lines of
/// `width` columns. Thread t < 32 gets the total of column block_index() * 32 + t.
/// Needs threads * 4 bytes of scratch.
template <int threads>
KILN_DEVICE float sum_partials(const float* partials, i64 lines, int width, int stride,
                               char* scratch) {
  constexpr int slices = threads / 8, warps = threads / 32;
  static_assert(warps % 2 == 0, "warps are added in pairs");
  const int quad = thread_index() % 8 * 4;
  const i64 column = block_index() * 32 + quad;
  const int left = column < width ? int(width - column) : 0;
  float* slots = reinterpret_cast<float*>(scratch); // (warps, 32)
  Vec<float, 4> total = {};
  if (width % 4 == 0 || left >= 4) {
    const i64 end = left > 0 ? lines : 0;
#pragma unroll 4 // loads that wait together
    for (i64 line = thread_index() / 8; line < end; line += slices) {
      const auto v = load_global<Vec<float, 4>>(partials + line * stride + column);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total[i] += v[i];
    }
  } else {
#pragma unroll 1
    for (i64 line = thread_index() / 8; line < lines; line += slices)
#pragma unroll
      for (int i = 0; i < 3; ++i)
        total[i] += i < left ? load_global<float>(partials + line * stride + column + i) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    total[i] = combine_lanes<Sum, 8, 32>(total[i]);
  if (thread_index() % 32 < 8)
    store_shared(slots + thread_index() / 32 * 32 + quad, total);
  block_barrier();
  if (thread_index() >= 32)
    return 0.0f;
  double even = 0.0, odd = 0.0; // half of all additions on a value's way are here: exact, yet few
#pragma unroll
  for (int warp = 0; warp < warps; warp += 2) {
    even += load_shared<float>(slots + warp * 32 + thread_index());
    odd += load_shared<float>(slots + (warp + 1) * 32 + thread_index());
  }
  return float(even + odd);
}

/// Writes the totals of columns [first, first + columns) of the partials to `to`.
template <class T> KILN_DEVICE void store_total(float total, int first, int columns, T* to) {
  const i64 column = block_index() * 32 + thread_index() - first;
  if (thread_index() < 32 && column >= 0 && column < columns)
    store_global(to + column, convert<T>(Vec<float, 1>{{total}}));
}

} // namespace kiln
