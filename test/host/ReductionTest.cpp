// The parts of the device library that LayerNorm does not use: other reductions, scalar sums, row
// maps of several dimensions, strided columns, barriers among groups of warps.
#include "test/host/Harness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kiln::test {
namespace {

constexpr const char* reductionText = R"(#include "row.cuh"
using namespace kiln;

template <class Tile>
KILN_DEVICE void extremes(const float* x, float* high, float* low, i64 rows) {
  Tile at(rows, block_index());
  Registers<Tile, float> x_tile;
  load<1>(at, x_tile, x, RowMap<1>{{0}, {Tile::columns}});
  float top[Tile::rows], bottom[Tile::rows];
  for (int r = 0; r < Tile::rows; ++r) {
    top[r] = Max::identity();
    bottom[r] = Min::identity();
    for (int c = 0; c < Tile::chunks; ++c)
      for (int i = 0; i < Tile::vector; ++i)
        if (at.has(c)) {
          top[r] = maximum(top[r], x_tile.get(r, c)[i]);
          bottom[r] = minimum(bottom[r], x_tile.get(r, c)[i]);
        }
  }
  row_reduce<Max>(at, shared_memory(), top);
  row_reduce<Min>(at, shared_memory() + row_reduce_bytes<Tile>(1), bottom);
  stage_rows(at, shared_memory() + 2 * row_reduce_bytes<Tile>(1), top, bottom);
  block_barrier();
  store_rows(at, shared_memory() + 2 * row_reduce_bytes<Tile>(1),
             RowStore{high, RowMap<1>{{0}, {1}}, top}, RowStore{low, RowMap<1>{{0}, {1}}, bottom});
}
KILN_KERNEL(64, 1) narrow(const float* x, float* high, float* low, i64 rows) {
  extremes<RowTile<100, 4, 4, 3, 64>>(x, high, low, rows);
}
KILN_KERNEL(192, 1) wide(const float* x, float* high, float* low, i64 rows) {
  extremes<RowTile<100, 96, 1, 2, 192>>(x, high, low, rows);
}

// Five values of each of seven rows, over as many warps a row: more values than a warp has lanes.
template <class Tile> KILN_DEVICE void sums(const float* x, float* y, i64 rows) {
  Tile at(rows, block_index());
  Registers<Tile, float> x_tile;
  load<1>(at, x_tile, x, RowMap<1>{{0}, {Tile::columns}});
  float sum[5][Tile::rows] = {};
  for (int r = 0; r < Tile::rows; ++r)
    for (int c = 0; c < Tile::chunks; ++c)
      for (int k = 0; k < 5; ++k)
        sum[k][r] += float(k + 1) * x_tile.get(r, c)[0];
  row_reduce<Sum>(at, shared_memory(), sum[0], sum[1], sum[2], sum[3], sum[4]);
  for (int r = 0; r < Tile::rows; ++r)
    for (int k = 0; k < 5; ++k)
      if (at.valid(r) && at.lane == (r + 13 * k) % Tile::lanes) // whichever lane: all have it
        store_global(y + at.row(r) * 5 + k, sum[k][r]);
}
KILN_KERNEL(128, 1) sums_of_two_warps(const float* x, float* y, i64 rows) {
  sums<RowTile<100, 64, 1, 7, 128>>(x, y, rows);
}
KILN_KERNEL(320, 1) sums_of_ten_warps(const float* x, float* y, i64 rows) {
  sums<RowTile<100, 320, 1, 7, 320>>(x, y, rows);
}

KILN_KERNEL(32, 1) quotients(const float* x, float* y) {
  const i64 i = block_index() * 32 + thread_index();
  store_global(y + i, divide_by(load_global<float>(x + i), 1280.0f));
}

KILN_KERNEL(128, 1) total(const float* x, float* partial, i64 count) {
  using Tile = RowTile<1, 1, 1, 1, 128>;
  Tile at(count, block_index());
  const float mine = at.valid(0) ? load_global<float>(x + at.row(0)) : 0.0f;
  store_partial_scalar(at, shared_memory(), partial + block_index(), mine);
  store_partial_scalar(at, shared_memory(), partial + block_count() + block_index(), mine * mine);
}

// (a, b, columns) to (b, columns, a): rows split over two dimensions, columns strided.
KILN_KERNEL(64, 1) transpose(const float* x, float* y, i64 a, i64 b) {
  using Tile = RowTile<12, 8, 1, 1, 64>;
  Tile at(a * b, block_index());
  Registers<Tile, float> x_tile;
  load<1>(at, x_tile, x, RowMap<2>{{a, b}, {12 * b, 12}});
  for (int c = 0; c < Tile::chunks; ++c)
    if (at.has(c))
      store<1>(at, 0, c, y, RowMap<2>{{a, b}, {1, 12 * a}, a}, x_tile.get(0, c));
}

// Two pairs of warps pass a value on, each pair with a barrier of its own.
KILN_KERNEL(128, 1) pairs(float* y) {
  const int pair = thread_index() / 64, other = thread_index() ^ 32;
  store_shared(shared_memory() + thread_index() * 4, float(thread_index()));
  group_barrier(1 + pair, 64);
  store_global(y + thread_index(), load_shared<float>(shared_memory() + other * 4));
}
)";

std::vector<float> waves(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i) * 1.7f) * static_cast<float>(1 + i % 5);
  return values;
}

class Reduction : public testing::Test {
 protected:
  void checkExtremes(const char* kernel, int threads, std::int64_t rowsPerBlock) {
    constexpr std::int64_t rows = 53, columns = 100;
    std::vector<float> x = waves(rows * columns), high(rows), low(rows);
    x[3 * columns + 99] = NAN;
    runKernel(*library, {.name = kernel,
                         .blocks = (rows + rowsPerBlock - 1) / rowsPerBlock,
                         .threads = threads,
                         .sharedBytes = 2048,
                         .arguments = {pointer(x), pointer(high), pointer(low), rows},
                         .regions = {input("x", x), output("high", high), output("low", low)}});
    for (std::int64_t r = 0; r < rows; ++r) {
      auto begin = x.begin() + r * columns, end = begin + columns;
      if (r == 3) {
        EXPECT_TRUE(std::isnan(high[r]) && std::isnan(low[r]));
        continue;
      }
      EXPECT_EQ(high[r], *std::max_element(begin, end));
      EXPECT_EQ(low[r], *std::min_element(begin, end));
    }
  }

  void checkSums(const char* kernel, int threads, std::int64_t rowsPerBlock) {
    constexpr std::int64_t rows = 53, columns = 100;
    std::vector<float> x(rows * columns), y(rows * 5);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i * 7919 % 1009); // their sums are exact
    runKernel(*library, {.name = kernel,
                         .blocks = (rows + rowsPerBlock - 1) / rowsPerBlock,
                         .threads = threads,
                         .sharedBytes = 2048,
                         .arguments = {pointer(x), pointer(y), rows},
                         .regions = {input("x", x), output("y", y)}});
    for (std::int64_t r = 0; r < rows; ++r) {
      const float sum = std::accumulate(&x[r * columns], &x[r * columns] + columns, 0.0f);
      for (int k = 0; k < 5; ++k)
        EXPECT_EQ(y[r * 5 + k], static_cast<float>(k + 1) * sum) << r << ", " << k;
    }
  }

  std::shared_ptr<HostLibrary> library = HostLibrary::compile(reductionText);
};

TEST_F(Reduction, MoreValuesThanLanes) {
  checkSums("sums_of_two_warps", 128, 14);
  checkSums("sums_of_ten_warps", 320, 7);
}

TEST_F(Reduction, DivisionByAConstantRoundsLikeADivision) {
  std::vector<float> x = waves(32 * 32), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(x[i], static_cast<int>(i % 200) - 100);
  for (float special : {INFINITY, -INFINITY, 0.0f, -0.0f, std::numeric_limits<float>::max()})
    x.push_back(special);
  x.resize(33 * 32, NAN);
  y.resize(x.size());
  runKernel(*library, {.name = "quotients",
                       .blocks = 33,
                       .threads = 32,
                       .arguments = {pointer(x), pointer(y)},
                       .regions = {input("x", x), output("y", y)}});
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isnan(x[i]))
      EXPECT_TRUE(std::isnan(y[i])) << i;
    else
      EXPECT_EQ(y[i], x[i] / 1280.0f) << x[i];
}

TEST_F(Reduction, ExtremesOfNarrowRows) {
  checkExtremes("narrow", 64, 48);
}

TEST_F(Reduction, ExtremesOfRowsOverThreeWarps) {
  checkExtremes("wide", 192, 4);
}

TEST_F(Reduction, ScalarSums) {
  constexpr std::size_t count = 1000, blocks = 8;
  std::vector<float> x = waves(count), partial(2 * blocks);
  runKernel(*library, {.name = "total",
                       .blocks = blocks,
                       .threads = 128,
                       .sharedBytes = 128,
                       .arguments = {pointer(x), pointer(partial), count},
                       .regions = {input("x", x), output("partial", partial)}});
  double sum = 0, squares = 0, gotSum = 0, gotSquares = 0;
  for (float value : x) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    gotSum += partial[b];
    gotSquares += partial[blocks + b];
  }
  EXPECT_NEAR(gotSum, sum, 1e-3);
  EXPECT_NEAR(gotSquares, squares, 1e-3 * squares);
}

TEST_F(Reduction, RowMapsAndStridedColumns) {
  constexpr std::size_t a = 3, b = 7, columns = 12;
  std::vector<float> x = waves(a * b * columns), y(x.size(), NAN);
  runKernel(*library, {.name = "transpose",
                       .blocks = 3,
                       .threads = 64,
                       .arguments = {pointer(x), pointer(y), a, b},
                       .regions = {input("x", x), output("y", y)}});
  for (std::size_t i = 0; i < a; ++i)
    for (std::size_t j = 0; j < b; ++j)
      for (std::size_t c = 0; c < columns; ++c)
        EXPECT_EQ(y[(j * columns + c) * a + i], x[(i * b + j) * columns + c]);
}

TEST_F(Reduction, GroupsOfWarpsHaveTheirOwnBarriers) {
  std::vector<float> y(128);
  runKernel(*library, {.name = "pairs",
                       .blocks = 1,
                       .threads = 128,
                       .sharedBytes = 512,
                       .arguments = {pointer(y)},
                       .regions = {output("y", y)}});
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(y[i], static_cast<float>(i ^ 32));
}

} // namespace
} // namespace kiln::test
