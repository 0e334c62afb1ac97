// Tiles of matrices in shared memory and what a warp multiplies of them: operands of (16, depth)
// and (depth, 16) elements, products added up in fp32. bf16 and f16 are multiplied as they are. Of
// fp32 each operand is split into two tf32 parts, of whose products the smallest is left out: an
// error of about 2^-21 relative to the product of the lengths. Rows of a tile are an odd number of
// 16-byte pieces apart, so that eight of them touch all banks.
#pragma once

#include "mma.cuh"

namespace kiln {

/// A tile of `rows` rows of `width` elements. What lies behind a row's elements, up to what
/// products take, is zero.
template <class T, int rows_, int width_> struct MatrixTile {
  using Element = T;
  static constexpr int rows = rows_;
  static constexpr int width = width_;
  static constexpr int depth = 32 / sizeof(T); // of one product
  static constexpr int piece = 16 / sizeof(T); // elements
  static constexpr int steps = (width + depth - 1) / depth;
  static constexpr int pieces = steps * depth / piece;
  static constexpr int pitch = (pieces | 1) * piece; // elements
  static constexpr int bytes = rows * pitch * int(sizeof(T));

  T* data; // (rows, pitch), aligned to 16 bytes

  KILN_DEVICE explicit MatrixTile(char* memory) : data(reinterpret_cast<T*>(memory)) {}
  KILN_DEVICE T* at(int row, int column) const { return data + row * pitch + column; }

  /// Starts to fetch rows, of which those from `end` on do not exist. All `threads` threads take
  /// part. Complete after a wait for copies and a barrier.
  template <int access, int threads>
  KILN_DEVICE void fetch(const T* from, i64 stride, int end) const {
    constexpr int vectors = pieces * (piece / access); // of a row
    if constexpr (threads % vectors == 0) {            // a thread has one column
      // Eight threads store at once. Of short rows they have eight rows, which touch all banks.
      constexpr bool is_short = access == piece && vectors < 8 && threads % (8 * vectors) == 0;
      constexpr int together = is_short ? 8 : 1;
      const int row = thread_index() / (together * vectors) * together + thread_index() % together;
      const int column = thread_index() / together % vectors * access;
      from += row * stride + column;
#pragma unroll
      for (int r = 0; r < rows; r += threads / vectors) {
        if (rows % (threads / vectors) == 0 || row + r < rows)
          fetch_one<access>(from, row + r, column, end);
        from += threads / vectors * stride;
      }
    } else {
#pragma unroll 1
      for (int i = thread_index(); i < rows * vectors; i += threads)
        fetch_one<access>(from + i / vectors * stride + i % vectors * access, i / vectors,
                          i % vectors * access, end);
    }
  }
  template <int access>
  KILN_DEVICE void fetch_one(const T* from, int row, int column, int end) const {
    const bool exists = row < end && column < width;
    if constexpr (access * sizeof(T) == 16) {
      copy_to_shared_or_zero(at(row, column), from, exists);
    } else {
      Vec<T, access> v = {};
      if (exists)
        v = load_global<Vec<T, access>>(from);
      store_shared(at(row, column), v);
    }
  }
};

// What products take of a tile, by element type. A is (16, depth), B is (depth, 16) as two products
// of 8 columns; accumulators are (16, 8), laid out as in mma.cuh.
template <class T> struct Operands {
  struct A {
    u32 words[4];
  };
  struct B {
    u32 words[4];
  };

  /// 16 rows of the tile from `row` on, step `k` of its columns.
  template <class Tile> static KILN_DEVICE A rows(const Tile& tile, int row, int k) {
    const int lane = thread_index() % 32;
    A a;
    load_matrices<false>(a.words, tile.at(row + lane % 16, k * Tile::depth + lane / 16 * 8));
    return a;
  }
  /// Columns of B are 16 rows of the tile from `row` on; its rows step `k` of the tile's columns.
  template <class Tile> static KILN_DEVICE B columns_of_rows(const Tile& tile, int row, int k) {
    const int lane = thread_index() % 32;
    B b;
    load_matrices<false>(
        b.words, tile.at(row + lane % 8 + lane / 16 * 8, k * Tile::depth + lane / 8 % 2 * 8));
    return b;
  }
  /// Rows of B are step `k` of the tile's rows, its columns those of the tile from `column` on, 8
  /// of them where no more are wanted.
  template <bool both, class Tile>
  static KILN_DEVICE B rows_of_rows(const Tile& tile, int k, int column) {
    const int lane = thread_index() % 32;
    B b = {};
    const T* place = tile.at(k * 16 + lane % 16, column + (both ? lane / 16 * 8 : 0));
    if constexpr (both) {
      load_matrices<true>(b.words, place);
    } else {
      u32(&first)[2] = reinterpret_cast<u32(&)[2]>(b.words);
      load_matrices2<true>(first, place);
    }
    return b;
  }
  /// Step `k` of accumulators whose columns are the depth of the product.
  template <int tiles> static KILN_DEVICE A of(const float (&c)[tiles][4], int k) {
    A a;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a.words[i] = pack_pair(T{}, c[2 * k + i / 2][i % 2 * 2], c[2 * k + i / 2][i % 2 * 2 + 1]);
    return a;
  }
  template <bool = true>
  static KILN_DEVICE void multiply(float (&d)[4], const A& a, const B& b, int half) {
    mma<T>(d, a.words, b.words[2 * half], b.words[2 * half + 1]);
  }
};

/// Elements are loaded one by one. Where accumulators are the other operand, the depth is permuted:
/// a thread has neighbouring columns of these.
template <> struct Operands<float> {
  struct A {
    u32 high[4], low[4];
  };
  using B = A;

  static KILN_DEVICE void split(A& a, int i, float value) {
    a.high[i] = float_to_tf32(value);
    a.low[i] = float_to_tf32(value - bits_to_float(a.high[i]));
  }
  /// 16 rows and a step of columns: of A the words go down the rows first, of B along them.
  template <bool down, class Tile> static KILN_DEVICE A of_rows(const Tile& tile, int row, int k) {
    const int lane = thread_index() % 32;
    A a;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int lower = down ? i % 2 : i / 2, right = down ? i / 2 : i % 2;
      split(a, i,
            load_shared<float>(
                tile.at(row + lane / 4 + lower * 8, k * Tile::depth + lane % 4 + right * 4)));
    }
    return a;
  }
  template <class Tile> static KILN_DEVICE A rows(const Tile& tile, int row, int k) {
    return of_rows<true>(tile, row, k);
  }
  template <class Tile> static KILN_DEVICE B columns_of_rows(const Tile& tile, int row, int k) {
    return of_rows<false>(tile, row, k);
  }
  template <bool both, class Tile>
  static KILN_DEVICE B rows_of_rows(const Tile& tile, int k, int column) {
    const int lane = thread_index() % 32;
    B b = {};
#pragma unroll
    for (int i = 0; i < (both ? 4 : 2); ++i)
      split(
          b, i,
          load_shared<float>(tile.at(k * 8 + lane % 4 * 2 + i % 2, column + lane / 4 + i / 2 * 8)));
    return b;
  }
  template <int tiles> static KILN_DEVICE A of(const float (&c)[tiles][4], int k) {
    A a;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      split(a, i, c[k][i % 2 * 2 + i / 2]);
    return a;
  }
  /// Tensor cores cut sums off, toward 0, so that errors of long sums do not cancel: `apart`, sums
  /// of a few products are added up with rounding.
  template <bool apart = true>
  static KILN_DEVICE void multiply(float (&d)[4], const A& a, const B& b, int half) {
    float sums[4] = {};
    float(&to)[4] = apart ? sums : d;
    mma_tf32(to, a.high, b.low[2 * half], b.low[2 * half + 1]);
    mma_tf32(to, a.low, b.high[2 * half], b.high[2 * half + 1]);
    mma_tf32(to, a.high, b.high[2 * half], b.high[2 * half + 1]);
    if constexpr (apart)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        d[i] += sums[i];
  }
};

/// c (16, 8 tiles) += 16 rows of `a` from `row` on, times the transposed rows of `b`.
template <int tiles, class TileA, class TileB>
KILN_DEVICE void multiply_rows(float (&c)[tiles][4], const TileA& a, int row, const TileB& b) {
  static_assert(tiles * 8 == TileB::rows && tiles % 2 == 0, "columns are the rows of b");
  static_assert(TileA::steps == TileB::steps, "rows of one width");
  using Operand = Operands<typename TileA::Element>;
  // Of many steps a loop: operands that are loaded far ahead fill the registers. Those of fp32 are
  // twice as many.
  constexpr int ahead = sizeof(typename TileA::Element) > 2 ? 2 : 32;
  constexpr int most = ahead / tiles > 1 ? ahead / tiles : 1;
  constexpr int unrolled = TileA::steps < most ? TileA::steps : most;
#pragma unroll unrolled
  for (int k = 0; k < TileA::steps; ++k) {
    const auto left = Operand::rows(a, row, k);
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      const auto right = Operand::columns_of_rows(b, n * 8, k);
      Operand::multiply(c[n], left, right, 0);
      Operand::multiply(c[n + 1], left, right, 1);
    }
  }
}

/// d (16, 8 `wide`) += c (16, 8 `deep`) rounded to the element type, times the rows of `b`.
template <int wide, int deep, class TileB>
KILN_DEVICE void multiply_accumulated(float (&d)[wide][4], const float (&c)[deep][4],
                                      const TileB& b) {
  static_assert(deep * 8 == TileB::rows && wide * 8 >= TileB::width, "columns of c are rows of b");
  using Operand = Operands<typename TileB::Element>;
#pragma unroll
  for (int k = 0; k < deep * 8 / TileB::depth; ++k) {
    const auto left = Operand::of(c, k);
#pragma unroll
    for (int n = 0; n + 1 < wide; n += 2) {
      const auto right = Operand::template rows_of_rows<true>(b, k, n * 8);
      Operand::template multiply<(wide <= 16)>(d[n], left, right, 0);
      Operand::template multiply<(wide <= 16)>(d[n + 1], left, right, 1);
    }
    if constexpr (wide % 2 != 0) {
      const auto right = Operand::template rows_of_rows<false>(b, k, (wide - 1) * 8);
      Operand::template multiply<(wide <= 16)>(d[wide - 1], left, right, 0);
    }
  }
}

/// Where store_rows has its thread's number from: the thread's own, or of a lane that a loop finds
/// anew, so that nothing which follows from it is kept in registers meanwhile.
struct ThisThread {
  KILN_DEVICE int index() const { return thread_index(); }
};
struct ThisLane {
  int lane;
  KILN_DEVICE int index() const { return lane; }
};

/// Rounds and stores 16 rows of accumulators, the first `width` of (16, 8 tiles), through a warp's
/// own part of shared memory, of which rows from `end` on do not exist. All lanes of the warp take
/// part, and none of them reads what lay there any more.
template <int access, int width, int tiles, class T, class Thread = ThisThread>
KILN_DEVICE void store_rows(char* memory, const float (&c)[tiles][4], T* to, i64 stride, int end,
                            const Thread& thread = {}) {
  using Tile = MatrixTile<T, 16, width>;
  const Tile tile(memory);
  const int lane = thread.index() % 32;
  static_assert(width <= 8 * tiles, "all columns come from accumulators");
#pragma unroll
  for (int n = 0; n < (width + 7) / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Vec<float, 2> pair = {{c[n][2 * r], c[n][2 * r + 1]}};
      store_shared(tile.at(lane / 4 + 8 * r, n * 8 + lane % 4 * 2), convert<T>(pair));
    }
  warp_barrier();
  constexpr int vectors = width / access;
  for (int i = lane; i < 16 * vectors; i += 32) {
    const int row = i / vectors, column = i % vectors * access;
    if (row < end)
      store_global(to + row * stride + column, load_shared<Vec<T, access>>(tile.at(row, column)));
  }
}
/// Shared memory of a warp for store_rows.
template <class T, int width> KILN_DEVICE constexpr int store_bytes() {
  return MatrixTile<T, 16, width>::bytes;
}

} // namespace kiln
