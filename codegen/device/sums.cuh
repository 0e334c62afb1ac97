// Sums of rows: each row of the result adds up rows ("terms") of one tensor, found by formula
// (StridedTerms: a sum over some of the leading dimensions) or in a list (ListedTerms: rows that
// name the same segment). The work is cut into units: `lanes` x `vector` neighbouring columns of
// one part of one result row. Where units are many, each group of `lanes` threads of a block takes
// one; where they are few, the whole block works on one, and terms are divided into parts that a
// second launch adds up. Every order is fixed: results are bitwise the same from run to run.
#pragma once

#include "move.cuh"

namespace kiln {

template <i64 columns_, int lanes_, int vector_, int units_, int parts_, int threads_>
struct SumTile {
  static constexpr i64 columns = columns_;
  static constexpr int lanes = lanes_;
  static constexpr int vector = vector_;
  static constexpr int units = units_; // of a block
  static constexpr int parts = parts_; // of the terms of a result row
  static constexpr int threads = threads_;
  static constexpr int groups = threads / lanes;
  static constexpr u32 chunks = u32((columns + lanes * vector - 1) / (lanes * vector));

  static_assert(threads % 32 == 0 && threads <= 1024, "a block is 1 to 32 warps");
  static_assert((groups & (groups - 1)) == 0 && groups * lanes == threads,
                "groups of a block are combined in pairs");
  static_assert(units == 1 || units == groups, "a unit has a block or a group of its own");
  static_assert(units == 1 || parts == 1, "terms are divided where units are few");
  static_assert(columns % vector == 0, "a vector never crosses the end of a row");
};

/// What one unit works on, as this thread sees it.
template <class Tile> struct SumUnit {
  u32 part, output;
  i64 column;

  KILN_DEVICE explicit SumUnit(u32 unit) {
    column = (i64(unit % Tile::chunks) * Tile::lanes + thread_index() % Tile::lanes) * Tile::vector;
    unit /= Tile::chunks;
    part = unit % Tile::parts;
    output = unit / Tile::parts;
  }
  KILN_DEVICE bool has() const { return column < Tile::columns; }
  /// Rows of the result lie part by part; without parts, one after another.
  KILN_DEVICE u32 row() const { return output * Tile::parts + part; }
  KILN_DEVICE u32 begin(u32 count) const {
    const u32 share = (count + Tile::parts - 1) / Tile::parts;
    return part * share < count ? part * share : count;
  }
  KILN_DEVICE u32 end(u32 count) const {
    const u32 share = (count + Tile::parts - 1) / Tile::parts;
    return count - begin(count) < share ? count : begin(count) + share;
  }
};

/// As many terms for each row of the result, at regular distances.
template <int kept_rank, int summed_rank> struct StridedTerms {
  static constexpr bool varies = false; // how many terms a row has
  RowMap<kept_rank> kept;
  RowMap<summed_rank> summed;
  i64 terms;

  struct Row {
    i64 start;
    const RowMap<summed_rank>& summed;
    u32 count;
    KILN_DEVICE i64 offset(u32 term) const { return start + summed.offset(term); }
  };
  KILN_DEVICE i64 column_stride() const { return kept.column_stride; }
  KILN_DEVICE Row of(u32 output) const { return {kept.offset(output), summed, u32(terms)}; }
};
template <int kept_rank, int summed_rank>
StridedTerms(RowMap<kept_rank>, RowMap<summed_rank>, i64) -> StridedTerms<kept_rank, summed_rank>;

/// The rows of each segment, as list_rows lists them (lists.cuh).
template <int rank> struct ListedTerms {
  static constexpr bool varies = true;
  const i32* spans; // (segments, 2): where its rows begin and end in `list`
  const i32* list;
  RowMap<rank> map;

  struct Row {
    const i32* list;
    const RowMap<rank>& map;
    u32 count;
    KILN_DEVICE i64 offset(u32 term) const { return map.offset(load_global<u32>(list + term)); }
  };
  KILN_DEVICE i64 column_stride() const { return map.column_stride; }
  KILN_DEVICE Row of(u32 output) const {
    const auto span = load_global<Vec<u32, 2>>(spans + 2 * i64(output));
    return {list + span[0], map, span[1] - span[0]};
  }
};
template <int rank> ListedTerms(const i32*, const i32*, RowMap<rank>) -> ListedTerms<rank>;

/// Adds the terms first, first + step, ... before `last`: several loads are on their way at once,
/// and are added in pairs.
template <int vector, class T, class Row>
KILN_DEVICE Vec<float, vector> sum_terms(const T* from, const Row& row, i64 column_stride,
                                         u32 first, u32 last, u32 step) {
  constexpr int together = sizeof(T) * vector >= 16 ? 4 : 8;
  Vec<float, vector> total = {};
  u32 term = first;
#pragma unroll 1
  for (; term < last && last - term > (together - 1) * step; term += together * step) {
    Vec<T, vector> x[together];
#pragma unroll
    for (int t = 0; t < together; ++t)
      x[t] = load_vector<vector, vector>(from + row.offset(term + t * step), column_stride);
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      float pair[together / 2];
#pragma unroll
      for (int t = 0; t < together / 2; ++t) {
        const Vec<T, vector>&even = x[2 * t], &odd = x[2 * t + 1];
        pair[t] = float(even[i]) + float(odd[i]);
      }
#pragma unroll
      for (int half = together / 4; half > 0; half /= 2)
#pragma unroll
        for (int t = 0; t < half; ++t)
          pair[t] += pair[t + half];
      total[i] += pair[0];
    }
  }
#pragma unroll 1
  for (; term < last; term += step) {
    const auto x = load_vector<vector, vector>(from + row.offset(term), column_stride);
#pragma unroll
    for (int i = 0; i < vector; ++i)
      total[i] += float(x[i]);
  }
  return total;
}

/// Where vectors of the threads of a block meet: (parts of 16 bytes, threads).
template <class Tile> struct SumSlots {
  static constexpr int width = Tile::vector < 4 ? Tile::vector : 4;
  using Part = Vec<float, width>;
  char* slots;

  KILN_DEVICE char* at(int part, int thread) const {
    return slots + (part * Tile::threads + thread) * sizeof(Part);
  }
  KILN_DEVICE void put(const Vec<float, Tile::vector>& v) const {
#pragma unroll
    for (int p = 0; p < Tile::vector / width; ++p) {
      Part part;
#pragma unroll
      for (int i = 0; i < width; ++i)
        part[i] = v[p * width + i];
      store_shared(at(p, thread_index()), part);
    }
  }
  KILN_DEVICE void add(Vec<float, Tile::vector>& v, int thread) const {
#pragma unroll
    for (int p = 0; p < Tile::vector / width; ++p) {
      const auto part = load_shared<Part>(at(p, thread));
#pragma unroll
      for (int i = 0; i < width; ++i)
        v[p * width + i] += part[i];
    }
  }
};

/// The first group gets the sum of all groups, in pairs. Begins with a barrier: nobody reads the
/// slots of an earlier use any more.
template <class Tile>
KILN_DEVICE void combine_groups(char* scratch, Vec<float, Tile::vector>& total) {
  const SumSlots<Tile> slots{scratch};
  const int group = thread_index() / Tile::lanes;
  block_barrier();
#pragma unroll 1
  for (int half = Tile::groups / 2; half > 0; half /= 2) {
    if (group >= half && group < 2 * half)
      slots.put(total);
    block_barrier();
    if (group < half)
      slots.add(total, thread_index() + half * Tile::lanes);
  }
}

/// Bytes of scratch that sum_rows needs: vectors of all threads meet where blocks have one unit, or
/// terms vary in number.
template <class Tile, class Terms> KILN_DEVICE constexpr int sum_rows_bytes() {
  return Tile::units == 1 || Terms::varies ? Tile::threads * Tile::vector * 4 : 0;
}

/// Adds up the terms of the block's units and stores the totals, rounded to the type of `to`.
/// `access`: elements that one store moves.
template <int access, class Tile, class T, class Terms, class To, int rank>
KILN_DEVICE void sum_rows(const Tile&, char* scratch, const T* from, const Terms& terms, To* to,
                          const RowMap<rank>& map, i64 units) {
  const int group = thread_index() / Tile::lanes;
  const u32 first = u32(block_index()) * Tile::units;
  auto store = [&](const SumUnit<Tile>& at, const Vec<float, Tile::vector>& total) {
    store_vector<access>(to + map.offset(at.row()) + at.column * map.column_stride,
                         convert<To>(total), map.column_stride);
  };
  auto sum = [&](const SumUnit<Tile>& at, const auto& row, u32 begin, u32 end, u32 step) {
    return sum_terms<Tile::vector>(from + at.column * terms.column_stride(), row,
                                   terms.column_stride(), begin, end, step);
  };
  constexpr u32 few = 32; // terms that a group adds up alone, if others have more
  if constexpr (Tile::units > 1) {
    if (first + group < units) {
      const SumUnit<Tile> at(first + group);
      const auto row = terms.of(at.output);
      if (at.has() && (!Terms::varies || row.count <= few))
        store(at, sum(at, row, 0, row.count, 1));
    }
  }
  if constexpr (Tile::units == 1 || Terms::varies) {
#pragma unroll 1
    for (u32 unit = first; unit < first + Tile::units && unit < units; ++unit) {
      const SumUnit<Tile> at(unit);
      const auto row = terms.of(at.output);
      if (Tile::units > 1 && row.count <= few) // the same in all threads
        continue;
      Vec<float, Tile::vector> total = {};
      if (at.has())
        total = sum(at, row, at.begin(row.count) + group, at.end(row.count), Tile::groups);
      combine_groups<Tile>(scratch, total);
      if (group == 0 && at.has())
        store(at, total);
    }
  }
}

} // namespace kiln
