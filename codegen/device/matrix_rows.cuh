// Products of `own` times 16 rows that a warp has with operands which it loads once for all of
// them, bf16 and f16 (matrix_tile.cuh has those of 16 rows). A lane's place in what it loads is
// known before a loop: beside products few instructions are left for addresses.
#pragma once

#include "matrix_tile.cuh"

namespace kiln {

/// Rows of a tile as a lane loads them: those that are columns of B, whose depth is the tile's
/// columns, or those that are rows of B. Both know where they are in elements from the tile's
/// first.
template <class Tile> struct LanePlaces {
  int columns, rows;

  static KILN_DEVICE LanePlaces of_lane() {
    const int lane = thread_index() % 32;
    return {anew((lane % 8 + lane / 16 * 8) * Tile::pitch + lane / 8 % 2 * 8),
            anew(lane % 16 * Tile::pitch + lane / 16 * 8)};
  }
  /// `first`: what the rows begin with, in elements.
  KILN_DEVICE const typename Tile::Element* columns_at(const Tile& tile, int first) const {
    return tile.data + (columns + first);
  }
  KILN_DEVICE const typename Tile::Element* rows_at(const Tile& tile, int first) const {
    return tile.data + (rows + first);
  }
};

/// Rows of `a` from `row` on, as operands.
template <class A, int own, int steps, class TileA>
KILN_DEVICE void load_rows(A (&to)[own][steps], const TileA& a, int row) {
#pragma unroll
  for (int j = 0; j < own; ++j)
#pragma unroll
    for (int k = 0; k < steps; ++k)
      to[j][k] = Operands<typename TileA::Element>::rows(a, row + 16 * j, k);
}

/// c (16, 8 tiles) += those rows times the transposed rows of a `Tile`, of which `b` is the lane's
/// place.
template <class Tile, int own, int tiles, class A, int steps>
KILN_DEVICE void multiply_loaded(float (&c)[own][tiles][4], const A (&a)[own][steps],
                                 const typename Tile::Element* b) {
  static_assert(steps == Tile::steps && tiles % 2 == 0, "rows of one width");
  using T = typename Tile::Element;
#pragma unroll
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      u32 words[4];
      load_matrices<false>(words, b + n * 8 * Tile::pitch + k * Tile::depth);
#pragma unroll
      for (int j = 0; j < own; ++j) {
        mma<T>(c[j][n], a[j][k].words, words[0], words[1]);
        mma<T>(c[j][n + 1], a[j][k].words, words[2], words[3]);
      }
    }
}

/// d (16, 8 `wide`) += the operands times 16 rows of a `Tile`, of which `b` is the lane's place.
template <class Tile, int own, int wide, class A>
KILN_DEVICE void multiply_step(float (&d)[own][wide][4], const A (&a)[own],
                               const typename Tile::Element* b) {
  using T = typename Tile::Element;
  static_assert(wide * 8 >= Tile::width, "columns of b");
#pragma unroll
  for (int n = 0; n < wide; n += 2) {
    const bool both = n + 1 < wide;
    u32 words[4] = {};
    if (both)
      load_matrices<true>(words, b + n * 8);
    else // the lanes of which nothing is read may name what is behind the row
      load_matrices2<true>(reinterpret_cast<u32(&)[2]>(words), b + n * 8);
#pragma unroll
    for (int j = 0; j < own; ++j) {
      mma<T>(d[j][n], a[j].words, words[0], words[1]);
      if (both)
        mma<T>(d[j][both ? n + 1 : n], a[j].words, words[2], words[3]);
    }
  }
}
/// d (16, 8 `wide`) += c (16, 8 `deep`) rounded to the element type, times the rows of a `Tile`.
template <class Tile, int own, int wide, int deep>
KILN_DEVICE void multiply_all(float (&d)[own][wide][4], const float (&c)[own][deep][4],
                              const typename Tile::Element* b) {
  using Operand = Operands<typename Tile::Element>;
#pragma unroll
  for (int k = 0; k < deep / 2; ++k) {
    typename Operand::A left[own];
#pragma unroll
    for (int j = 0; j < own; ++j)
      left[j] = Operand::of(c[j], k);
    multiply_step<Tile>(d, left, b + 16 * k * Tile::pitch);
  }
}
/// d (16, 8 `wide`) += 16 transposed columns of `a` from `column` on and so forth, times the rows
/// of `b`: of both the first `rows`, up to whole steps of 16.
template <int own, int wide, class TileA, class TileB>
KILN_DEVICE void multiply_columns(float (&d)[own][wide][4], const TileA& a, int column,
                                  const TileB& b, int rows) {
  static_assert(TileA::rows == TileB::rows, "columns of a are multiplied by rows of b");
  using T = typename TileB::Element;
  const int lane = thread_index() % 32;
  const T* left_place = a.at(lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8);
  const T* right_place = b.at(lane % 16, lane / 16 * 8);
#pragma unroll 3
  for (int k = 0; k < (rows + 15) / 16; ++k) {
    typename Operands<T>::A left[own];
#pragma unroll
    for (int j = 0; j < own; ++j)
      load_matrices<true>(left[j].words, left_place + 16 * j);
    multiply_step<TileB>(d, left, right_place);
    left_place += 16 * TileA::pitch;
    right_place += 16 * TileB::pitch;
  }
}

} // namespace kiln
