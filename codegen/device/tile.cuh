// How the rows of a tensor are dealt to the threads of a block. `lanes` neighbouring threads
// share a row; each holds `chunks` vectors of `vector` neighbouring columns of it, and works on
// `rows` rows at once. Groups within a warp own neighbouring rows, so that one access of a warp
// covers one contiguous piece of memory.
#pragma once

#include "types.cuh"

namespace kiln {

/// Where the vector does not divide the row, vectors are those of memory: rows lie one after
/// another from an aligned place on, so a row begins `shift` elements into a vector, or into the
/// line of 8 vectors that the memory moves at once. Its first and last vectors are not whole; only
/// one row a thread has one shift. `movers_`: warps of the block
/// behind these threads, which only move data (ring.cuh). `cluster_`: blocks that share their rows,
/// all lanes of which are one group.
template <int columns_, int lanes_, int vector_, int rows_, int threads_, int movers_ = 0,
          int cluster_ = 1>
struct RowTile {
  static constexpr int columns = columns_;
  static constexpr int lanes = lanes_;
  static constexpr int vector = vector_;
  static constexpr int rows = rows_;
  static constexpr int threads = threads_;
  static constexpr int movers = movers_;
  static constexpr int cluster = cluster_;
  static constexpr bool overlaps = columns % vector != 0;
  static constexpr int span = columns + (overlaps ? vector - 1 : 0);
  static constexpr int chunks = (span + lanes * vector - 1) / (lanes * vector);
  static constexpr bool by_lines =
      lanes >= 8 && columns + 8 * vector - 1 <= chunks * lanes * vector;
  static constexpr int before = by_lines ? 8 * vector : vector; // and less lie before a row
  static constexpr int groups = threads * cluster / lanes;
  static constexpr int rows_per_block = groups * rows; // or those of its cluster
  static constexpr int groups_per_warp = lanes < 32 ? 32 / lanes : 1;
  static constexpr int warps_per_group = lanes < 32 ? 1 : lanes / 32;

  static_assert(threads % 32 == 0 && threads <= 1024, "a block is 1 to 32 warps");
  static_assert(threads * cluster % lanes == 0, "lanes divide the threads of a block");
  static_assert(cluster == 1 || groups == 1, "blocks of a cluster share each of their rows");
  static_assert(lanes % 32 == 0 || (lanes < 32 && (lanes & (lanes - 1)) == 0),
                "a row is shared by a power of two of lanes, or by whole warps");
  static_assert(!overlaps || rows == 1, "vectors overlap the ends of one row a thread");

  u32 count; // rows in all, at most 2^31
  u32 base;  // first row of the block
  int lane;  // of this thread within its row
  int group; // of this thread within the block, or the cluster
  int shift; // elements of the first vectors that belong to the row before

  KILN_DEVICE RowTile(i64 row_count, i64 tile_index)
      : count(u32(row_count)), base(u32(tile_index) * rows_per_block), lane(u32(member()) % lanes),
        group(u32(member()) / lanes), shift(shift_of_row()) {}

  /// Of this thread among those that share the rows.
  static KILN_DEVICE int member() {
    return cluster > 1 ? cluster_rank() * threads + thread_index() : thread_index();
  }

  /// Barrier of the threads that work on rows.
  static KILN_DEVICE void barrier() {
    if constexpr (cluster > 1) {
      cluster_arrive();
      cluster_wait();
    } else if constexpr (movers == 0)
      block_barrier();
    else
      group_barrier(1, threads);
  }

  KILN_DEVICE bool any() const { return base < count; }
  KILN_DEVICE void advance(i64 tiles) {
    base += u32(tiles) * rows_per_block;
    shift = shift_of_row();
  }
  KILN_DEVICE int shift_of_row() const {
    return overlaps ? int(row_to_read(0) * u32(columns) % u32(before)) : 0;
  }

  /// The r-th row of this thread within the block, 0 <= r < rows.
  KILN_DEVICE int local_row(int r) const {
    const int warp_row = (group / groups_per_warp) * rows * groups_per_warp;
    return warp_row + group % groups_per_warp + r * groups_per_warp;
  }
  KILN_DEVICE u32 row(int r) const { return base + local_row(r); }
  KILN_DEVICE bool valid(int r) const { return row(r) < count; }
  /// The row to read for the r-th: past the end the last one, so that no load needs a condition.
  KILN_DEVICE u32 row_to_read(int r) const { return row(r) < count ? row(r) : count - 1; }

  /// First column of this thread's c-th chunk, 0 <= c < chunks.
  KILN_DEVICE int column(int c) const { return (c * lanes + lane) * vector - shift; }
  /// Whether every lane's c-th chunk lies in the row, whatever its shift: known to the compiler
  /// where c is, so that only the ends of a row cost conditions.
  static KILN_DEVICE constexpr bool inner(int c) {
    if constexpr (columns % (lanes * vector) == 0)
      return true;
    else
      return (!overlaps || c > 0) && (c + 1) * lanes * vector <= columns;
  }
  KILN_DEVICE bool has(int c) const { return inner(c) || column(c) < columns; }
  /// Whether all of the chunk lies in the row.
  KILN_DEVICE bool whole(int c) const {
    return inner(c) ||
           (overlaps ? column(c) >= 0 && column(c) + vector <= columns : column(c) < columns);
  }
  /// Whether all of the chunk lies in the tensor: beside a row lies the row before or after.
  KILN_DEVICE bool readable(int c) const {
    if (inner(c) || !overlaps)
      return has(c);
    const int behind = column(c) + vector - columns; // elements of the rows after this one
    return behind < vector && (behind <= 0 || has_behind(behind));
  }
  KILN_DEVICE bool has_behind(int elements) const {
    const u32 rows_behind = count - 1 - row_to_read(0);
    if constexpr (columns >= vector)
      return rows_behind > 0;
    else
      return i64(rows_behind) * columns >= elements;
  }
  /// Whether its i-th element lies in the row.
  KILN_DEVICE bool holds(int c, int i) const {
    return inner(c) || u32(column(c) + i) < u32(columns);
  }
  /// Calls `body` with each element of the chunk that lies in the row. Only the warps that have the
  /// ends of a row ask for each.
  template <class Body> KILN_DEVICE void each_in_row(int c, Body body) const {
    if (whole(c)) {
#pragma unroll
      for (int i = 0; i < vector; ++i)
        body(i);
    } else {
#pragma unroll
      for (int i = 0; i < vector; ++i)
        if (holds(c, i))
          body(i);
    }
  }
};

/// Tiles whose vectors overlap the ends of rows where all rows of a thread have one shift, because
/// the grid's number of blocks sees to it: a thread then has the same columns of each.
template <int columns_, int lanes_, int vector_, int threads_, int movers_ = 0>
struct SteadyTile : RowTile<columns_, lanes_, vector_, 1, threads_, movers_> {
  using Base = RowTile<columns_, lanes_, vector_, 1, threads_, movers_>;
  static_assert(Base::overlaps, "only overlapping vectors have shifts");

  KILN_DEVICE SteadyTile(i64 row_count, i64 tile_index) : Base(row_count, tile_index) {
    this->shift = shift_in_vector();
  }
  KILN_DEVICE void advance(i64 tiles) {
    Base::advance(tiles);
    this->shift = shift_in_vector();
  }
  KILN_DEVICE int shift_in_vector() const {
    return int(this->row_to_read(0) * u32(columns_) % u32(vector_));
  }
  /// What a ring brings is asked for less often, which elsewhere takes registers.
  static KILN_DEVICE constexpr bool in_ring() { return movers_ > 0; }
  /// A block that has a single row at a time has it whole: a tile past the end is none.
  KILN_DEVICE bool valid(int r) const {
    return (in_ring() && Base::rows_per_block == 1) || Base::valid(r);
  }
  /// Where a row fills the first chunk, that begins with it at the latest, and others begin in it.
  static KILN_DEVICE constexpr bool fills() { return lanes_ * vector_ <= columns_; }
  KILN_DEVICE bool has(int c) const {
    return in_ring() ? (c + 1) * lanes_ * vector_ <= columns_ || this->column(c) < columns_
                     : Base::has(c);
  }
  KILN_DEVICE bool holds(int c, int i) const {
    if (!in_ring())
      return Base::holds(c, i);
    if (fills() && c == 0)
      return this->column(0) >= -i;
    return Base::inner(c) || (fills() ? this->column(c) < columns_ - i : Base::holds(c, i));
  }
  /// Whether all lanes of the warp have whole chunks.
  KILN_DEVICE bool whole_in_warp(int c) const {
    const int first = (c * lanes_ + this->lane / 32 * 32) * vector_ - this->shift;
    return Base::inner(c) || (lanes_ >= 32 && (!fills() || c > 0 || first >= 0) &&
                              first + 32 * vector_ <= columns_ && (fills() || first >= 0));
  }
  /// Calls `body` with each element of the chunk and whether it lies in the row. A warp takes one
  /// way through: that of its lanes that have an end, if there are any.
  template <class Body> KILN_DEVICE void each(int c, Body body) const {
    if (whole_in_warp(c)) {
#pragma unroll
      for (int i = 0; i < vector_; ++i)
        body(i, true);
    } else {
#pragma unroll
      for (int i = 0; i < vector_; ++i)
        body(i, holds(c, i));
    }
  }
};

/// Calls `body` with each of `first`, `first` + `step`, ... below `end`, `first` < `step`: how
/// `step` threads share the work. Where each has one place at most, no loop costs the compiler
/// time.
template <int end, int step, class Body> KILN_DEVICE void each_share(int first, Body body) {
  if constexpr (end <= step) {
    if (first < end)
      body(first);
  } else {
#pragma unroll 1
    for (int at = first; at < end; at += step)
      body(at);
  }
}

/// Where a row begins: the row index is split over `rank` leading dimensions, innermost last.
template <int rank> struct RowMap {
  i64 size[rank];   // of the leading dimensions; the first is not read
  i64 stride[rank]; // elements; 0 = broadcast
  i64 column_stride = 1;

  KILN_DEVICE i64 offset(u32 row) const {
    i64 result = 0;
#pragma unroll
    for (int d = rank - 1; d > 0; --d) {
      result += i64(row % u32(size[d])) * stride[d];
      row /= u32(size[d]);
    }
    return result + i64(row) * stride[0];
  }
};

} // namespace kiln
