// Where products of warps store narrow rows of heads that share a bias, two neighbours a thread: as
// they are, head by head without a search where heads lie along one dimension, or what becomes of
// them (attention_epilogue.cuh).
#pragma once

#include "attention.cuh"

namespace kiln {

/// Stores two neighbours.
template <class Rows>
KILN_DEVICE void store_two(typename Rows::Element* to, float one, float next) {
  using Out = typename Rows::Element;
  if constexpr (Rows::access >= 2) {
    store_global(to, convert<Out>(Vec<float, 2>{{one, next}}));
  } else {
    store_global(to, Out(one));
    store_global(to + 1, Out(next));
  }
}
/// The same in a row so far below.
template <class Rows> struct StoreOfTwo {
  typename Rows::Element* to;
  i64 stride; // between rows
  KILN_DEVICE void two(int below, float one, float next) const {
    store_two<Rows>(to + below * stride, one, next);
  }
};

/// A thread's rows of the heads that share a bias: heads that lie along one dimension are not
/// searched for.
template <class Rows> struct SharersRows {
  const Rows& rows;
  typename Rows::Element* row; // of the first head
  u32 first;                   // head
  i64 step;                    // from head to head; 0: not along one dimension

  KILN_DEVICE SharersRows(const Rows& rows, u32 first, i64 sharing, int own)
      : rows(rows), row(rows.row(first, own)), first(first), step(step_of(rows.heads, sharing)) {
    if (step == 0)
      row = rows.data + own * rows.stride;
  }
  KILN_DEVICE auto* of(u32 head) const {
    return row + (step == 0 ? rows.heads.offset(head) : i64(head - first) * step);
  }
  template <int rank> static KILN_DEVICE i64 step_of(const RowMap<rank>& heads, i64 sharing) {
    const bool is_one = rank == 1 || u32(heads.size[rank - 1]) % u32(sharing) == 0;
    return is_one ? heads.stride[rank - 1] : 0;
  }
  /// From the lane's column on, in the thread's first row of a head.
  KILN_DEVICE StoreOfTwo<Rows> at(u32 head) const {
    return {of(head) + lane_column(), rows.stride};
  }
};
template <class T, int access, int rank>
KILN_DEVICE SharersRows<HeadRows<T, access, rank>>
sharers_rows(const HeadRows<T, access, rank>& rows, u32 first, i64 sharing, int own) {
  return {rows, first, sharing, own};
}
/// The same of what becomes of an output, whose heads are found one by one.
template <class Result> struct StoreOfResult {
  const Result& result;
  u32 head;
  int row;
  KILN_DEVICE void two(int below, float one, float next) const {
    store_neighbours(Vec<float, 2>{{one, next}}, result, head, row + below, lane_column());
  }
};
template <class Result> struct SharersResult {
  const Result& result;
  int row;
  /// Found anew, so that no registers hold what follows from it.
  KILN_DEVICE StoreOfResult<Result> at(u32 head) const {
    return {result, u32(anew(int(head))), anew(row)};
  }
};
template <class Result>
KILN_DEVICE SharersResult<Result> sharers_rows(const Result& result, u32, i64, int own) {
  return {result, own};
}

} // namespace kiln
