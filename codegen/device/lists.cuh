// Lists of the rows that name each segment, without atomics, so that their order is always that of
// the rows. A block owns `range` neighbouring segments and looks at all indices twice, each warp at
// a share of its own: first it counts them, by warp and segment; then it knows where each warp's
// rows of each segment go, and writes them. The lists of all segments lie one after another: a
// block finds the place of its first by counting the indices below its range.
#pragma once

#include "tile.cuh"

namespace kiln {

template <int threads_, int range_> struct ListTile {
  static constexpr int threads = threads_;
  static constexpr int range = range_; // segments of a block
  static constexpr int warps = threads / 32;
  static_assert(threads % 32 == 0 && threads <= 1024, "a block is 1 to 32 warps");
  static_assert(range <= threads, "a thread for each segment");
};

template <class Tile, class Index, int rank> struct RowLister {
  static constexpr int warps = Tile::warps, range = Tile::range;

  const Index* index;
  const RowMap<rank>& map;
  i64 rows, segments, padding;
  i32* counts; // (warps, range) of shared memory
  i64 first;   // segment of the block

  KILN_DEVICE bool names(i64 segment) const {
    return segment >= 0 && segment < segments && segment != padding;
  }
  KILN_DEVICE i32* count(int segment) const {
    return counts + thread_index() / 32 * range + segment;
  }

  /// Calls `body` with each row of this warp's share, in order, 32 at a time, and the segment that
  /// it names, -1 past the end. Indices are loaded ahead.
  template <class Body> KILN_DEVICE void each(Body body) const {
    constexpr u32 ahead = 8;
    const u32 share = u32((rows + warps * 32 - 1) / (warps * 32)) * 32;
    const u32 begin = u32(thread_index() / 32) * share;
    const u32 end = rows < i64(begin) + share ? u32(rows) : begin + share;
#pragma unroll 1
    for (u32 base = begin; base < end; base += ahead * 32) {
      i64 named[ahead];
#pragma unroll
      for (u32 a = 0; a < ahead; ++a) {
        const u32 row = base + a * 32 + thread_index() % 32;
        named[a] = row < end ? i64(load_global<Index>(index + map.offset(row))) : -1;
      }
#pragma unroll
      for (u32 a = 0; a < ahead; ++a)
        if (base + a * 32 < end)
          body(base + a * 32 + thread_index() % 32, named[a]);
    }
  }

  /// For a row that names a segment of this block: `body` with the segment's number in the block,
  /// the rows of this warp's 32 that name it too, and how many of them come before.
  template <class Body> KILN_DEVICE void match(i64 segment, Body body) const {
    const bool mine = names(segment) && segment >= first && segment < first + range;
    const u32 local = mine ? u32(segment - first) : u32(range);
    const u32 same = lanes_with(local);
    const int before = count_bits(same & ((1u << thread_index() % 32) - 1));
    body(mine, int(local), count_bits(same), before);
  }

  /// Counts by warp and segment; returns how many of this thread's rows lie below the range.
  KILN_DEVICE i32 count_rows() const {
    for (int s = thread_index() % 32; s < range; s += 32)
      store_shared(count(s), 0);
    warp_barrier();
    i32 below = 0;
    each([&](u32, i64 segment) {
      below += names(segment) && segment < first;
      match(segment, [&](bool mine, int local, int many, int before) {
        if (mine && before == 0)
          store_shared(count(local), load_shared<i32>(count(local)) + many);
        warp_barrier();
      });
    });
    return below;
  }

  /// Writes each row where the count, which is the next free place by now, says.
  KILN_DEVICE void write_rows(i32* list) const {
    each([&](u32 row, i64 segment) {
      match(segment, [&](bool mine, int local, int many, int before) {
        const i32 place = mine ? load_shared<i32>(count(local)) : 0;
        if (mine)
          store_global(list + place + before, i32(row));
        warp_barrier();
        if (mine && before == 0)
          store_shared(count(local), place + many);
        warp_barrier();
      });
    });
  }
};

/// The sum of the values of a warp's lanes, in every lane.
KILN_DEVICE i32 sum_of_warp(i32 value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __builtin_bit_cast(i32, shuffle_xor(__builtin_bit_cast(float, value), distance));
  return value;
}

/// Bytes of scratch that list_rows needs: counts, totals, and what is below.
template <class Tile> KILN_DEVICE constexpr int list_rows_bytes() {
  return 4 * (Tile::warps * Tile::range + Tile::range + Tile::warps);
}

/// Fills `spans` (segments, 2) for the block's segments, and their part of `list`.
template <class Tile, class Index, int rank>
KILN_DEVICE void list_rows(const Tile&, char* scratch, const Index* index, const RowMap<rank>& map,
                           i64 rows, i64 segments, i64 padding, i32* spans, i32* list) {
  constexpr int warps = Tile::warps, range = Tile::range;
  i32* counts = reinterpret_cast<i32*>(scratch); // (warps, range)
  i32* totals = counts + warps * range;          // (range)
  i32* below = totals + range;                   // (warps)
  const RowLister<Tile, Index, rank> lister{
      index, map, rows, segments, padding, counts, block_index() * range};
  const i32 mine = sum_of_warp(lister.count_rows());
  if (thread_index() % 32 == 0)
    store_shared(below + thread_index() / 32, mine);
  block_barrier();
  const int segment = thread_index();
  i32 total = 0; // of the segment; counts become places within its list
  if (segment < range) {
    for (int warp = 0; warp < warps; ++warp) {
      const i32 count = load_shared<i32>(counts + warp * range + segment);
      store_shared(counts + warp * range + segment, total);
      total += count;
    }
    store_shared(totals + segment, total);
  }
#pragma unroll 1
  for (int distance = 1; distance < range; distance *= 2) { // running sums of the totals
    block_barrier();
    const bool adds = segment >= distance && segment < range;
    const i32 left = adds ? load_shared<i32>(totals + segment - distance) : 0;
    block_barrier();
    if (adds)
      store_shared(totals + segment, load_shared<i32>(totals + segment) + left);
  }
  if (segment < range) {
    i32 end = load_shared<i32>(totals + segment);
    for (int warp = 0; warp < warps; ++warp)
      end += load_shared<i32>(below + warp);
    for (int warp = 0; warp < warps; ++warp)
      store_shared(counts + warp * range + segment,
                   load_shared<i32>(counts + warp * range + segment) + end - total);
    if (lister.first + segment < segments)
      store_global(spans + 2 * (lister.first + segment), Vec<i32, 2>{{end - total, end}});
  }
  block_barrier();
  lister.write_rows(list);
}

} // namespace kiln
