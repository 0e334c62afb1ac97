// The bias of a block's queries in shared memory (attention_shared_bias.cuh), of which accumulators
// of scores begin: as a tensor map has brought it, or widened.
#pragma once

#include "attention_shared_rows.cuh"

namespace kiln {

/// A tile of a bias in fp32, in the order that accumulators have it: of each 16 rows and 8 columns
/// the four of each lane. It comes as a tensor map brings it, with which it begins.
template <int rows_, int width_> struct WidenedTile : SwizzledTile<rows_, width_> {
  static constexpr int bytes = rows_ * width_ * int(sizeof(float));
};
template <class Bias> inline constexpr bool is_widened = false;
template <int rows, int width> inline constexpr bool is_widened<WidenedTile<rows, width>> = true;

/// Four matrices of pairs, times `factor`, as accumulators of the n-th eight columns and the next.
template <class Element, int deep>
KILN_DEVICE void widen_matrices(float (&s)[deep][4], int n, const u32 (&words)[4], float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Vec<Element, 2> pair = __builtin_bit_cast(Vec<Element, 2>, words[i]);
    s[n + i / 2][i % 2 * 2] = float(pair[0]) * factor;
    s[n + i / 2][i % 2 * 2 + 1] = float(pair[1]) * factor;
  }
}

/// The bias of 64 queries as a tensor map has brought it, for accumulators of scores: over the
/// scale, since exponents are made of both.
template <class Tile, class Element> struct HeldBias {
  static constexpr bool adds = Tile::Bias::bytes > 0;
  const char* row; // the lane's row of matrices, in the first panel
  float over_scale;
  int piece; // of 16 bytes, that the lane's row begins with: the swizzle turns others by it

  KILN_DEVICE HeldBias(const char* bias, float scale)
      : row(bias + (lane_row() % Tile::queries / 16 * 16 + thread_index() % 16) * 128),
        over_scale(1.0f / scale), piece(thread_index() % 32 / 16 ^ thread_index() % 8) {}
  KILN_DEVICE void prepare() const {}

  /// Of 16 columns from the `at`-th eight on, an even one.
  KILN_DEVICE void load(u32 (&words)[4], u32 at) const {
    load_matrices<false>(words, row + at / 8 * Tile::Bias::panel_bytes + (at % 8 ^ piece) * 16);
  }
  /// `first_key`: a multiple of `deep` times 8, and so of whole panels if that is.
  template <int deep> KILN_DEVICE void begin(float (&s)[deep][4], int first_key) const {
    if constexpr (!adds)
      return;
    const u32 first = u32(anew(first_key)) / 8;
    constexpr bool is_whole = deep % 8 == 0;
    HeldBias from = *this;
    if constexpr (is_whole)
      from.row += first / 8 * Tile::Bias::panel_bytes;
#pragma unroll
    for (int n = 0; n < deep; n += 2) {
      u32 words[4];
      from.load(words, is_whole ? n : first + n);
      widen_matrices<Element>(s, n, words, over_scale);
    }
  }
};

/// The same of a widened tile, which computing threads make of the one that has come, all of it
/// read before any is written over.
template <class Tile, class Element> struct WidenedBias {
  static constexpr bool adds = true;
  static constexpr int of_rows = Tile::Bias::width / 8 * 32; // pieces of four, of 16 rows
  const char* bias;
  Vec<float, 4>* lane; // its pieces of the warp's rows
  float scale;

  KILN_DEVICE WidenedBias(const char* bias, float scale)
      : bias(bias), lane(reinterpret_cast<Vec<float, 4>*>(const_cast<char*>(bias)) +
                         RowsOfWarp<Tile>::row_in_tile() / 16 * of_rows + thread_index() % 32),
        scale(scale) {}

  KILN_DEVICE void prepare() const {
    constexpr int blocks = Tile::Bias::width / 16, own = (blocks + Tile::side - 1) / Tile::side;
    const HeldBias<Tile, Element> held(bias, scale);
    const int first = RowsOfWarp<Tile>::side(); // those who have the same rows share them out
    u32 words[own][4];
#pragma unroll
    for (int j = 0; j < own; ++j)
      if (const int block = first + j * Tile::side; blocks % Tile::side == 0 || block < blocks)
        held.load(words[j], 2 * block);
    group_barrier(1, Tile::loader);
#pragma unroll
    for (int j = 0; j < own; ++j)
      if (const int block = first + j * Tile::side; blocks % Tile::side == 0 || block < blocks) {
        float wide[2][4];
        widen_matrices<Element>(wide, 0, words[j], held.over_scale);
#pragma unroll
        for (int n = 0; n < 2; ++n)
          store_shared(lane + (2 * block + n) * 32,
                       Vec<float, 4>{{wide[n][0], wide[n][1], wide[n][2], wide[n][3]}});
      }
    group_barrier(1, Tile::loader);
  }
  template <int deep> KILN_DEVICE void begin(float (&s)[deep][4], int first_key) const {
    const Vec<float, 4>* from = lane + u32(anew(first_key)) / 8 * 32;
#pragma unroll
    for (int n = 0; n < deep; ++n) {
      const auto four = load_shared<Vec<float, 4>>(from + n * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[n][i] = four[i];
    }
  }
};
template <class Tile, class Element>
using BiasOfQueries = conditional<is_widened<typename Tile::Bias>, WidenedBias<Tile, Element>,
                                  HeldBias<Tile, Element>>;

} // namespace kiln
