// What a kernel computes of attention's output, element by element, on its way to memory: a result
// is rows, or rows with the function that makes their elements, or two of these. A function takes
// neighbours of a row, as many as a thread has side by side, and where the first is.
#pragma once

#include "move.cuh"
#include "scores.cuh"

namespace kiln {

/// How many elements a vector has.
template <class Vector> inline constexpr int count_of = 0;
template <class T, int count> inline constexpr int count_of<Vec<T, count>> = count;

/// Neighbours of a row from `column` on, a multiple of their number.
template <int count, class T, int access, int rank>
KILN_DEVICE auto neighbours(const HeadRows<T, access, rank>& rows, u32 head, int row, int column) {
  const i64 step = rows.heads.column_stride;
  return load_vector<count, (access < count ? access : count)>(rows.row(head, row) + column * step,
                                                               step);
}

/// Random numbers where rows of a tensor would lie, whose rows have an even width if `is_even`.
template <class T, int bits, bool is_even, int rank> struct RandomHeads {
  RowMap<rank> heads;
  i64 stride; // between rows
  u64 seed, offset;
};
template <class T, int bits, bool is_even, int rank>
KILN_DEVICE RandomHeads<T, bits, is_even, rank> random_heads(const RowMap<rank>& heads, i64 stride,
                                                             u64 seed, u64 offset) {
  return {heads, stride, seed, offset};
}
template <int count, class T, int bits, bool is_even, int rank>
KILN_DEVICE Vec<T, count> neighbours(const RandomHeads<T, bits, is_even, rank>& numbers, u32 head,
                                     int row, int column) {
  constexpr int together = is_even && count % 2 == 0 ? 2 : 1;
  const i64 step = numbers.heads.column_stride;
  const i64 first = numbers.heads.offset(head) + row * numbers.stride + column * step;
  Vec<T, count> values;
#pragma unroll
  for (int i = 0; i < count; i += together) {
    const auto part =
        random_vector<T, bits, together>(numbers.seed, numbers.offset, first + i * step);
#pragma unroll
    for (int j = 0; j < together; ++j)
      values[i + j] = part[j];
  }
  return values;
}

template <class Rows, class Compute> struct ComputedRows {
  using Element = typename Rows::Element;
  static constexpr int access = Rows::access;
  Rows rows;
  Compute compute;
};
template <class Rows, class Compute>
KILN_DEVICE ComputedRows<Rows, Compute> computed_rows(const Rows& rows, const Compute& compute) {
  return {rows, compute};
}
/// `Element`: the wider one of both. `access`: what both can be moved by.
template <class First, class Second> struct TwoResults {
  using Element = conditional<(sizeof(typename First::Element) > sizeof(typename Second::Element)),
                              typename First::Element, typename Second::Element>;
  static constexpr int access = First::access < Second::access ? First::access : Second::access;
  First first;
  Second second;
};
template <class First, class Second>
KILN_DEVICE TwoResults<First, Second> two_results(const First& first, const Second& second) {
  return {first, second};
}

/// Stores 16 rows of a warp's accumulators from `first` on, through the warp's `own` memory
/// (store_rows).
template <int width, int wide, class T, int access, int rank, class Thread>
KILN_DEVICE void store_result(char* own, const float (&c)[wide][4],
                              const HeadRows<T, access, rank>& rows, u32 head, int first, int end,
                              const Thread& thread) {
  store_rows<access, width>(own, c, rows.row(head, first), rows.stride, end - first, thread);
}
template <int width, int wide, class Rows, class Compute, class Thread>
KILN_DEVICE void store_result(char* own, const float (&c)[wide][4],
                              const ComputedRows<Rows, Compute>& result, u32 head, int first,
                              int end, const Thread& thread) {
  if (first >= end) // of the whole warp, whose head need not be there either
    return;
  const int lane = thread.index() % 32;
  float y[wide][4];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    // Rows that do not exist are computed as the last one: so no branch keeps loads apart.
    const int own_row = first + lane / 4 + 8 * r, row = own_row < end ? own_row : end - 1;
#pragma unroll
    for (int n = 0; n < (width + 7) / 8; ++n) { // the others are padding
      const int column = 8 * n + lane % 4 * 2;
      Vec<float, 2> two = {{c[n][2 * r], c[n][2 * r + 1]}};
      if (width % 8 == 0 || column + 1 < width)
        two = result.compute(two, head, row, column);
      else if (width % 2 != 0 && column < width)
        two[0] = result.compute(Vec<float, 1>{{two[0]}}, head, row, column)[0];
      y[n][2 * r] = two[0];
      y[n][2 * r + 1] = two[1];
    }
  }
  store_result<width>(own, y, result.rows, head, first, end, thread);
}
template <int width, int wide, class First, class Second, class Thread>
KILN_DEVICE void store_result(char* own, const float (&c)[wide][4],
                              const TwoResults<First, Second>& results, u32 head, int first,
                              int end, const Thread& thread) {
  store_result<width>(own, c, results.first, head, first, end, thread);
  warp_barrier();
  store_result<width>(own, c, results.second, head, first, end, thread);
}

/// Stores `count` neighbours of a row that a thread has, moved by `access` at once.
template <int count, class T, int access, int rank>
KILN_DEVICE void store_neighbours(const Vec<float, count>& x, const HeadRows<T, access, rank>& rows,
                                  u32 head, int row, int column) {
  using Element = typename HeadRows<T, access, rank>::Element;
  constexpr int moved = access < count ? access : count;
  T* to = rows.row(head, row) + column * rows.heads.column_stride;
#pragma unroll
  for (int i = 0; i < count; i += moved) {
    Vec<float, moved> part;
#pragma unroll
    for (int j = 0; j < moved; ++j)
      part[j] = x[i + j];
    store_global(to + i * rows.heads.column_stride, convert<Element>(part));
  }
}
template <int count, class Rows, class Compute>
KILN_DEVICE void store_neighbours(const Vec<float, count>& x,
                                  const ComputedRows<Rows, Compute>& result, u32 head, int row,
                                  int column) {
  store_neighbours(result.compute(x, head, row, column), result.rows, head, row, column);
}
template <int count, class First, class Second>
KILN_DEVICE void store_neighbours(const Vec<float, count>& x,
                                  const TwoResults<First, Second>& results, u32 head, int row,
                                  int column) {
  store_neighbours(x, results.first, head, row, column);
  store_neighbours(x, results.second, head, row, column);
}

} // namespace kiln
