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
  static KILN_DEVICE u32 combine_pairs(bf16, u32 a, u32 b) { return maximum_bf16x2(a, b); }
  static KILN_DEVICE u32 combine_pairs(f16, u32 a, u32 b) { return maximum_f16x2(a, b); }
};
struct Min {
  static KILN_DEVICE float identity() { return bits_to_float(0x7f800000u); }
  static KILN_DEVICE float combine(float a, float b) { return minimum(a, b); }
  static KILN_DEVICE u32 combine_pairs(bf16, u32 a, u32 b) { return minimum_bf16x2(a, b); }
  static KILN_DEVICE u32 combine_pairs(f16, u32 a, u32 b) { return minimum_f16x2(a, b); }
};

/// Combines the elements of a vector; for Max and Min, which round nothing.
template <class Op, class T, int count>
KILN_DEVICE float combine_vector(const Vec<T, count, false>& v) {
  float result = float(v[0]);
#pragma unroll
  for (int i = 1; i < count; ++i)
    result = Op::combine(result, float(v[i]));
  return result;
}
template <class Op, class T, int count>
KILN_DEVICE float combine_vector(const Vec<T, count, true>& v) {
  Vec<T, 2> pair = {{v.words[0]}};
#pragma unroll
  for (int i = 1; i < count / 2; ++i)
    pair.words[0] = Op::combine_pairs(T{}, pair.words[0], v.words[i]);
  const Vec<T, 2>& both = pair;
  return Op::combine(float(both[0]), float(both[1]));
}

/// Combines `value` with those elements of a chunk that lie in the row.
template <class Op, class Tile, class V>
KILN_DEVICE float combine_chunk(const Tile& at, int c, const V& v, float value) {
  if (at.whole(c))
    return Op::combine(value, combine_vector<Op>(v));
#pragma unroll
  for (int i = 0; i < Tile::vector; ++i)
    if (at.holds(c, i))
      value = Op::combine(value, float(v[i]));
  return value;
}

/// Combines lanes `first`, 2 * `first`, ... up to `last` (exclusive) apart.
template <class Op, int first, int last> KILN_DEVICE float combine_lanes(float value) {
#pragma unroll
  for (int distance = last / 2; distance >= first; distance /= 2)
    value = Op::combine(value, shuffle_xor(value, distance));
  return value;
}

/// Combines each of `left` values over the lanes of the warp. Of two values a lane keeps one and
/// hands its partner the other, so that several take hardly more shuffles than one. In the end each
/// lane has the result of one value, in values[0]; returns which, or `left` for none: where a step
/// halves an odd count, the lanes that would hold the value after the last one hold padding.
template <class Op, int left, int distance = 16, int size>
KILN_DEVICE int fold_lanes(float (&values)[size]) {
  if constexpr (left == 1) {
    values[0] = combine_lanes<Op, 1, 2 * distance>(values[0]);
    return 0;
  } else {
    static_assert(distance > 0, "a lane for each value");
    constexpr int half = (left + 1) / 2;
    const bool upper = (thread_index() & distance) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float low = values[i], high = i + half < left ? values[i + half] : Op::identity();
      values[i] = Op::combine(upper ? high : low, shuffle_xor(upper ? low : high, distance));
    }
    const int held = fold_lanes<Op, half, distance / 2>(values);
    if (held >= half)
      return left; // padding of the half
    return (upper ? half : 0) + held;
  }
}

/// How many lanes have the same result then.
KILN_DEVICE constexpr int lanes_with_one(int values) {
  int lanes = 32;
  for (; values > 1; values = (values + 1) / 2)
    lanes /= 2;
  return lanes;
}

/// Bytes of scratch that row_reduce of `values` values needs; 0 if a warp holds whole rows.
template <class Tile> KILN_DEVICE constexpr int row_reduce_bytes(int values) {
  return Tile::warps_per_group > 1 ? values * Tile::rows * Tile::cluster * (Tile::threads / 32) * 4
                                   : 0;
}

/// Writes a warp's results of values[first], values[first + 1], ... to their places in its `line`.
template <class Op, class Tile, int first = 0, int count>
KILN_DEVICE void store_line(float* line, const float (&values)[count]) {
  constexpr int some = count - first < 32 ? count - first : 32;
  float mine[some];
#pragma unroll
  for (int i = 0; i < some; ++i)
    mine[i] = values[first + i];
  const int held = fold_lanes<Op, some>(mine);
  if (thread_index() % lanes_with_one(some) == 0 && held < some)
    store_cluster<Tile::cluster>(line + first + held, mine[0]);
  if constexpr (first + some < count)
    store_line<Op, Tile, first + some>(line, values);
}
/// Reads a line. The first of a block lies at a multiple of 16 bytes.
template <int count> KILN_DEVICE void load_line(const float* line, float (&values)[count]) {
  constexpr int together = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int i = 0; i < count; i += together) {
    const auto part = load_shared<Vec<float, together>>(line + i);
#pragma unroll
    for (int j = 0; j < together; ++j)
      values[i + j] = part[j];
  }
}

/// Combines the lines of `warps` warps: of some one after another, of many by shuffles.
template <class Op, int warps, int count>
KILN_DEVICE void combine_lines(const float* lines, float (&values)[count]) {
  if constexpr (warps <= 8) {
    load_line(lines, values);
#pragma unroll
    for (int warp = 1; warp < warps; ++warp) {
      float other[count];
      load_line(lines + warp * count, other);
#pragma unroll
      for (int i = 0; i < count; ++i)
        values[i] = Op::combine(values[i], other[i]);
    }
  } else {
    const int lane = thread_index() % 32;
#pragma unroll
    for (int i = 0; i < count; ++i)
      values[i] = Op::identity();
    if (lane < warps)
      load_line(lines + lane * count, values);
#pragma unroll
    for (int i = 0; i < count; ++i)
      values[i] = combine_lanes<Op, 1, 32>(values[i]);
  }
}

/// Combines the lanes of each row; every lane gets the result. Several values share one barrier.
/// The caller sees to it that nobody still reads `scratch` from an earlier use, and that all blocks
/// of a cluster run: each hands what its warps have to the others, so that all read their own.
template <class Op, class Tile, class... Values>
KILN_DEVICE void row_reduce(const Tile& at, char* scratch, Values&... values) {
  auto for_all = [&](auto body) {
    int index = 0;
    auto each = [&](float(&value)[Tile::rows]) {
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r)
        body(value[r], index++);
    };
    (each(values), ...);
  };
  if constexpr (Tile::warps_per_group == 1) {
    for_all([](float& value, int) { value = combine_lanes<Op, 1, Tile::lanes>(value); });
  } else {
    constexpr int count = sizeof...(values) * Tile::rows;
    float all[count];
    float* lines = reinterpret_cast<float*>(scratch); // (warps, count)
    for_all([&](float value, int i) { all[i] = value; });
    store_line<Op, Tile>(lines + Tile::member() / 32 * count, all);
    Tile::barrier();
    combine_lines<Op, Tile::warps_per_group>(lines + at.group * Tile::warps_per_group * count, all);
    for_all([&](float& value, int i) { value = all[i]; });
  }
}

template <class Tile> using ColumnSums = float[Tile::chunks][Tile::vector];

/// How store_partial_columns hands sums from thread to thread: a team of the block's threads spans
/// a row. A line of scratch has a place for each column, or for each element of vectors that
/// overlap the ends of rows of a ring, whose scratch has room for them. Functions, since constants
/// of a class are in the cubin.
template <class Tile> KILN_DEVICE constexpr bool overlaps_in_ring() {
  return Tile::overlaps && Tile::movers > 0;
}
template <class Tile> KILN_DEVICE constexpr int team_size() {
  return Tile::lanes < 32 ? 32 : Tile::lanes;
}
template <class Tile> KILN_DEVICE constexpr int places_of_team() {
  return overlaps_in_ring<Tile>() ? Tile::chunks * Tile::lanes * Tile::vector : Tile::columns;
}
/// Whether sums pass through scratch: vectors that overlap ends do, since a line of partial sums
/// begins elsewhere than they.
template <class Tile> KILN_DEVICE constexpr bool stages_partials() {
  return Tile::threads > team_size<Tile>() || overlaps_in_ring<Tile>();
}
/// Whether a vector moves at once; those of few columns do not gain by it.
template <class Tile> KILN_DEVICE constexpr bool moves_partial_vectors() {
  return overlaps_in_ring<Tile>() || (Tile::columns >= 2048 && Tile::vector > 1 && !Tile::overlaps);
}

/// Bytes of scratch that store_partial_columns needs; 0 if one warp's width covers the block.
template <class Tile> KILN_DEVICE constexpr int partial_columns_bytes() {
  return stages_partials<Tile>() ? Tile::threads / team_size<Tile>() * places_of_team<Tile>() * 4
                                 : 0;
}

/// How many elements the vectors of a team's rows begin before these.
template <class Tile> KILN_DEVICE int shift_of_team(const Tile& at, int team) {
  if constexpr (!overlaps_in_ring<Tile>())
    return 0;
  if constexpr (Tile::threads == team_size<Tile>())
    return at.shift;
  const u32 row = at.base + u32(team), last = at.count - 1;
  return int((row < last ? row : last) * u32(Tile::columns) % u32(Tile::vector));
}

/// Adds the column sums of the block's groups and writes them to `partials` (columns).
template <class Tile>
KILN_DEVICE void store_partial_columns(const Tile& at, char* scratch, float* partials,
                                       ColumnSums<Tile>& sums) {
  constexpr int teams = Tile::threads / team_size<Tile>(), places = places_of_team<Tile>();
  constexpr bool staged = stages_partials<Tile>();
  const int team = thread_index() / team_size<Tile>();
  const bool writes = thread_index() % team_size<Tile>() < Tile::lanes;
  float* slots = staged ? reinterpret_cast<float*>(scratch) : nullptr; // (teams, places)
  if constexpr (staged)
    Tile::barrier(); // nobody reads the scratch of an earlier use any more
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    Vec<float, Tile::vector> v;
#pragma unroll
    for (int i = 0; i < Tile::vector; ++i)
      v[i] = combine_lanes<Sum, Tile::lanes, 32>(sums[c][i]);
    if (!writes || !at.has(c))
      continue;
    if constexpr (moves_partial_vectors<Tile>()) {
      const int place = at.column(c) + (overlaps_in_ring<Tile>() ? at.shift : 0);
      if constexpr (staged)
        store_shared_vector(slots + team * places + place, v);
      else
        store_vector<Tile::vector>(partials + place, v);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        if constexpr (Tile::overlaps)
          if (!at.holds(c, i))
            continue;
        if constexpr (staged)
          store_shared(slots + team * places + at.column(c) + i, v[i]);
        else
          store_global(partials + at.column(c) + i, v[i]);
      }
    }
  }
  if constexpr (staged) {
    Tile::barrier();
    each_share<Tile::columns, Tile::threads>(thread_index(), [&](int column) {
      float total = 0.0f;
      for (int t = 0; t < teams; ++t)
        total += load_shared<float>(slots + t * places + column + shift_of_team(at, t));
      store_global(partials + column, total);
    });
  }
}

/// Bytes of scratch that store_partial_scalar needs: a number of each warp.
template <class Tile> KILN_DEVICE constexpr int partial_scalar_bytes() {
  return Tile::threads / 32 * 4;
}

/// Adds one value a thread over the block and writes the sum to `partial`.
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

/// Bytes of scratch that sum_partials needs: totals of each warp.
template <int threads, int columns = 32> KILN_DEVICE constexpr int sum_partials_bytes() {
  return threads / 32 * columns * 4;
}

/// The second kernel: each block adds up so many neighbouring `columns` of all `lines`, a thread 4
/// of them, of a slice of the lines. `stride`, a multiple of 4, separates lines of `width` columns.
/// Thread t < `columns` gets the total of column block_index() * columns + t.
template <int threads, int columns = 32>
KILN_DEVICE float sum_partials(const float* partials, i64 lines, int width, int stride,
                               char* scratch) {
  constexpr int quads = columns / 4, slices = threads / quads, warps = threads / 32;
  static_assert(warps % 2 == 0, "warps are added in pairs");
  static_assert(quads <= 32 && columns <= threads, "a warp has all columns");
  const int quad = thread_index() % quads * 4;
  const i64 column = block_index() * columns + quad;
  const int left = column < width ? int(width - column) : 0;
  float* slots = reinterpret_cast<float*>(scratch); // (warps, columns)
  Vec<float, 4> total = {};
  if (width % 4 == 0 || left >= 4) {
    // Loads: most threads have no more lines, and wait for memory once.
    constexpr int together = columns == 32 ? 12 : 9;
    const int end = left > 0 ? int(lines) : 0;
#pragma unroll 1
    for (int first = thread_index() / quads; first < end; first += together * slices) {
      Vec<float, 4> v[together];
#pragma unroll
      for (int t = 0; t < together; ++t) {
        const int line = first + t * slices;
        v[t] = {};
        if (line < end)
          v[t] = load_global<Vec<float, 4>>(partials + i64(line) * stride + column);
      }
#pragma unroll
      for (int t = 0; t < together; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          total[i] += v[t][i];
    }
  } else {
#pragma unroll 4
    for (i64 line = thread_index() / quads; line < lines; line += slices)
#pragma unroll
      for (int i = 0; i < 3; ++i)
        total[i] += i < left ? load_global<float>(partials + line * stride + column + i) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    total[i] = combine_lanes<Sum, quads, 32>(total[i]);
  if (thread_index() % 32 < quads)
    store_shared(slots + thread_index() / 32 * columns + quad, total);
  block_barrier();
  if (thread_index() >= columns)
    return 0.0f;
  double even = 0.0, odd = 0.0; // half of all additions on a value's way are here: exact, yet few
#pragma unroll
  for (int warp = 0; warp < warps; warp += 2) {
    even += load_shared<float>(slots + warp * columns + thread_index());
    odd += load_shared<float>(slots + (warp + 1) * columns + thread_index());
  }
  return float(even + odd);
}

/// Writes the totals of columns [first, first + columns) of the partials to `to`; a block has
/// `of_block` of them.
template <int of_block = 32, class T>
KILN_DEVICE void store_total(float total, int first, int columns, T* to) {
  const i64 column = block_index() * of_block + thread_index() - first;
  if (thread_index() < of_block && column >= 0 && column < columns)
    store_global(to + column, convert<T>(Vec<float, 1>{{total}}));
}

} // namespace kiln
