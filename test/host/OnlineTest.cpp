// The largest element of a row and the sum of exponentials, taken in one pass while the row
// arrives: rows whose largest element comes late, parts and threads that have nothing above -inf.
#include "test/host/Harness.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace kiln::test {
namespace {

constexpr const char* onlineText = R"(#include "row.cuh"
using namespace kiln;

template <class Tile> KILN_DEVICE void exponentials(const float* x, float* high, float* sums, i64 rows) {
  Tile at(rows, block_index());
  Shared<Tile, float> x_tile(shared_memory());
  load<Tile::vector, 2>(at, x_tile, x, RowMap<1>{{0}, {Tile::columns}});
  float top[Tile::rows], own[Tile::rows], sum[Tile::rows] = {};
  for (int r = 0; r < Tile::rows; ++r)
    top[r] = Max::identity();
  combine_exponentials<2>(at, x_tile, top, sum);
  for (int r = 0; r < Tile::rows; ++r)
    own[r] = top[r];
  row_reduce<Max>(at, shared_memory(), top);
  for (int r = 0; r < Tile::rows; ++r)
    sum[r] *= fast_exp(own[r] - top[r]);
  row_reduce<Sum>(at, shared_memory(), sum);
  for (int r = 0; r < Tile::rows; ++r)
    if (at.lane == 0 && at.valid(r)) {
      store_global(high + at.row(r), top[r]);
      store_global(sums + at.row(r), sum[r]);
    }
}
KILN_KERNEL(32, 1) even(const float* x, float* high, float* sums, i64 rows) {
  exponentials<RowTile<88, 4, 4, 2, 32>>(x, high, sums, rows);
}
KILN_KERNEL(32, 1) odd(const float* x, float* high, float* sums, i64 rows) {
  exponentials<RowTile<87, 4, 4, 1, 32>>(x, high, sums, rows);
}
)";

struct Row {
  const char* what;
  std::function<float(int)> value;
};
const Row kRows[] = {
    {"rises", [](int i) { return 0.5f * static_cast<float>(i); }},
    {"falls", [](int i) { return 9.0f - static_cast<float>(i); }},
    {"far from zero", [](int i) { return 10000.0f + static_cast<float>(i % 3); }},
    {"-inf first", [](int i) { return i < 60 ? -INFINITY : static_cast<float>(i % 7); }},
    {"-inf last", [](int i) { return i > 20 ? -INFINITY : static_cast<float>(i % 7); }},
    {"one above -inf", [](int i) { return i == 86 ? -3.0f : -INFINITY; }},
    {"-inf throughout", [](int) { return -INFINITY; }},
    {"+inf", [](int i) { return i == 40 ? INFINITY : 1.0f; }},
    {"NaN", [](int i) { return i == 85 ? NAN : 1.0f; }},
};

void check(const char* kernel, int columns, std::int64_t rowsPerBlock) {
  constexpr std::int64_t rows = std::size(kRows);
  std::vector<float> x(rows * columns), high(rows), sums(rows);
  for (std::int64_t r = 0; r < rows; ++r)
    for (int i = 0; i < columns; ++i)
      x[r * columns + i] = kRows[r].value(i);
  runKernel(*HostLibrary::compile(onlineText),
            {.name = kernel,
             .blocks = (rows + rowsPerBlock - 1) / rowsPerBlock,
             .threads = 32,
             .sharedBytes = 16384,
             .arguments = {pointer(x), pointer(high), pointer(sums), rows},
             .regions = {input("x", x), output("high", high), output("sums", sums)}});
  for (std::int64_t r = 0; r < rows; ++r) {
    SCOPED_TRACE(kRows[r].what);
    const float* row = &x[r * columns];
    double sum = 0;
    const float most = *std::max_element(row, row + columns);
    for (int i = 0; i < columns; ++i)
      sum += std::exp(static_cast<double>(row[i]) - most);
    if (std::isnan(sum)) {
      EXPECT_TRUE(std::isnan(sums[r])) << sums[r];
      continue;
    }
    EXPECT_EQ(high[r], most);
    EXPECT_NEAR(sums[r], sum, 1e-5 * sum);
  }
}

TEST(Online, SumsOfWholeVectors) {
  check("even", 88, 16);
}

TEST(Online, SumsOfRowsThatBeginAnywhere) {
  check("odd", 87, 8);
}

} // namespace
} // namespace kiln::test
