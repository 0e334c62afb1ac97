// Matrix instructions of a warp on the host target: each against a plain computation of what the
// hardware does, on data without symmetry. MatrixMistakesTest.cpp has what is reported.
#include "codegen/backend/Cubin.h"
#include "test/backend/DeviceText.h"
#include "test/host/Harness.h"
#include "test/host/Numbers.h"

#include <gmock/gmock.h>

#include <cmath>

namespace kiln::test {
namespace {

// Matrices go through memory as they are: a (16, 16) row after row, b (8, 16) column after column.
constexpr const char* matrixText = R"(#include "mma.cuh"
using namespace kiln;

KILN_DEVICE u32 pair_at(const u16* data, i64 i) { return load_global<u32>(data + i); }

template <class T>
KILN_DEVICE void multiply(const u16* a, const u16* b, float* d) {
  const int g = thread_index() / 4, t = thread_index() % 4;
  u32 left[4];
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    left[i] = pair_at(a, (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8);
    sums[i] = load_global<float>(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2);
  }
  mma<T>(sums, left, pair_at(b, g * 16 + 2 * t), pair_at(b, g * 16 + 2 * t + 8));
  for (int i = 0; i < 4; ++i)
    store_global(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2, sums[i]);
}
KILN_KERNEL(32, 1) multiply_bf16(const u16* a, const u16* b, float* d) { multiply<bf16>(a, b, d); }
KILN_KERNEL(32, 1) multiply_f16(const u16* a, const u16* b, float* d) { multiply<f16>(a, b, d); }

KILN_KERNEL(32, 1) multiply_tf32(const float* a, const float* b, float* d) {
  const int g = thread_index() / 4, t = thread_index() % 4;
  u32 left[4], right[2];
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    left[i] = float_to_tf32(load_global<float>(a + (g + i % 2 * 8) * 8 + t + i / 2 * 4));
    sums[i] = load_global<float>(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2);
  }
  for (int i = 0; i < 2; ++i)
    right[i] = float_to_tf32(load_global<float>(b + g * 8 + t + 4 * i));
  mma_tf32(sums, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i)
    store_global(d + (g + i / 2 * 8) * 8 + 2 * t + i % 2, sums[i]);
}

// Rows lie in an order of their own, as they do in a swizzled tile.
KILN_DEVICE char* place(int row) { return shared_memory() + (row * 13 + 5) % 32 * 16; }
struct alignas(16) Row { u32 words[4]; };

template <bool transposed> KILN_DEVICE void load(const u32* x, u32* y) {
  const int lane = thread_index();
  store_shared(place(lane), load_global<Row>(x + 4 * lane));
  warp_barrier();
  u32 four[4], two[2];
  load_matrices<transposed>(four, place(lane));
  load_matrices2<transposed>(two, lane < 16 ? place(lane) : nullptr);
  for (int i = 0; i < 4; ++i)
    store_global(y + 6 * lane + i, four[i]);
  for (int i = 0; i < 2; ++i)
    store_global(y + 6 * lane + 4 + i, two[i]);
}
KILN_KERNEL(32, 1) load_rows(const u32* x, u32* y) { load<false>(x, y); }
KILN_KERNEL(32, 1) load_columns(const u32* x, u32* y) { load<true>(x, y); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <bool transposed> KILN_DEVICE void store(const u32* x, u32* y) {
  const int lane = thread_index();
  u32 parts[4];
  for (int i = 0; i < 4; ++i)
    parts[i] = load_global<u32>(x + 4 * lane + i);
  store_matrices<transposed>(place(lane), parts);
  warp_barrier();
  store_global(y + 4 * lane, load_shared<Row>(place(lane)));
}
KILN_KERNEL(32, 1) store_rows(const u32* x, u32* y) { store<false>(x, y); }
KILN_KERNEL(32, 1) store_columns(const u32* x, u32* y) { store<true>(x, y); }
#endif

KILN_KERNEL(32, 1) copy_some(const u32* x, u32* y, i64 count) {
  const int lane = thread_index();
  copy_to_shared_or_zero(place(lane), lane < count ? x + 4 * lane : nullptr, lane < count);
  end_copies();
  wait_for_copies();
  store_global(y + 4 * lane, load_shared<Row>(place(lane)));
}

KILN_KERNEL(32, 1) vote(const u32* x, u32* y) {
  const bool mine = load_global<u32>(x + thread_index()) != 0;
  store_global(y + thread_index(), u32(any_lane(mine)) + 2 * u32(all_lanes(mine)));
}

KILN_KERNEL(32, 1) approximate(const float* x, float* y, u32* rounded) {
  const float value = load_global<float>(x + thread_index());
  store_global(y + thread_index(), exp2_approximate(value));
  store_global(y + 32 + thread_index(), log2_approximate(value));
  store_global(y + 64 + thread_index(), reciprocal_approximate(value));
  store_global(rounded + thread_index(), float_to_tf32(value));
}
)";

template <typename X, typename Y>
void run(const char* kernel, std::vector<X>& x, std::vector<Y>& y, std::uint64_t last = 0) {
  runKernel(*HostLibrary::compile(matrixText), {.name = kernel,
                                                .blocks = 1,
                                                .threads = 32,
                                                .sharedBytes = 512,
                                                .arguments = {pointer(x), pointer(y), last},
                                                .regions = {input("x", x), output("y", y)}});
}

//===- Products -----------------------------------------------------------------------------===//

/// (16, 8) sums over `depth`.
std::vector<float> expectedProduct(const std::vector<float>& a, const std::vector<float>& b,
                                   std::vector<float> d, int depth) {
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < depth; ++k)
        d[row * 8 + column] += a[row * depth + k] * b[column * depth + k];
  return d;
}

template <typename X>
std::vector<float> product(const char* kernel, std::vector<X>& a, std::vector<X>& b,
                           std::vector<float> d) {
  runKernel(*HostLibrary::compile(matrixText),
            {.name = kernel,
             .blocks = 1,
             .threads = 32,
             .arguments = {pointer(a), pointer(b), pointer(d)},
             .regions = {input("a", a), input("b", b), output("d", d)}});
  return d;
}

TEST(Mma, OfBothTypes) {
  for (bool isBf16 : {true, false}) {
    std::vector<float> a(16 * 16), b(8 * 16), d(16 * 8);
    Eighths next;
    for (auto* matrix : {&a, &b, &d})
      std::ranges::generate(*matrix, std::ref(next));
    std::vector<std::uint16_t> left, right;
    for (float value : a)
      left.push_back(bitsOf(value, isBf16));
    for (float value : b)
      right.push_back(bitsOf(value, isBf16));
    EXPECT_EQ(product(isBf16 ? "multiply_bf16" : "multiply_f16", left, right, d),
              expectedProduct(a, b, d, 16));
  }
}

TEST(Mma, OfTf32) {
  std::vector<float> a(16 * 8), b(8 * 8), d(16 * 8);
  Eighths next;
  for (auto* matrix : {&a, &b, &d})
    std::ranges::generate(*matrix, std::ref(next));
  EXPECT_EQ(product("multiply_tf32", a, b, d), expectedProduct(a, b, d, 8));
}

/// What fp32 does not hold is lost, whatever its size, and so that sums become smaller.
TEST(Mma, SumsAreCutOff) {
  for (float sign : {1.0f, -1.0f}) {
    std::vector<float> a(16 * 8, 0.0f), b(8 * 8, 0.0f), d(16 * 8, sign);
    a[0] = 1.0f;
    b[0] = sign * 0x1.8p-24f; // of 1 it is three quarters of a step
    EXPECT_EQ(product("multiply_tf32", a, b, d)[0], sign);
    b[0] = sign * 0x1.8p-23f;
    EXPECT_EQ(product("multiply_tf32", a, b, d)[0], sign * (1.0f + 0x1p-23f));
  }
}

//===- Moves --------------------------------------------------------------------------------===//

/// Four matrices of 8 by 8 elements, each with a number of its own.
std::vector<std::uint16_t> numbered() {
  std::vector<std::uint16_t> x(4 * 64);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::uint16_t>(40503 * i + 7);
  return x;
}

/// Where an element of a matrix is held.
int laneOf(int row, int column, bool transposed) {
  return transposed ? 4 * column + row / 2 : 4 * row + column / 2;
}
int halfOf(int row, int column, bool transposed) {
  return (transposed ? row : column) % 2;
}

TEST(Matrices, AreLoaded) {
  for (bool transposed : {false, true}) {
    std::vector<std::uint16_t> x = numbered(), y(32 * 12);
    run(transposed ? "load_columns" : "load_rows", x, y);
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int row = 0; row < 8; ++row)
        for (int column = 0; column < 8; ++column) {
          const std::uint16_t* held = y.data() + 12 * laneOf(row, column, transposed);
          const int half = halfOf(row, column, transposed);
          const std::uint16_t element = x[(matrix * 8 + row) * 8 + column];
          EXPECT_EQ(held[2 * matrix + half], element);
          if (matrix < 2) {
            EXPECT_EQ(held[8 + 2 * matrix + half], element);
          }
        }
  }
}

TEST(Matrices, AreStored) {
  for (bool transposed : {false, true}) {
    std::vector<std::uint16_t> x = numbered(), y(32 * 8); // a row a lane
    run(transposed ? "store_columns" : "store_rows", x, y);
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int row = 0; row < 8; ++row)
        for (int column = 0; column < 8; ++column)
          EXPECT_EQ(y[(matrix * 8 + row) * 8 + column],
                    x[8 * laneOf(row, column, transposed) + 2 * matrix +
                      halfOf(row, column, transposed)]);
  }
}

TEST(Matrices, RowsThatDoNotExistAreZero) {
  std::vector<std::uint16_t> x = numbered(), y(32 * 8, 0xffff);
  run("copy_some", x, y, 11);
  std::vector<std::uint16_t> expected = x;
  std::fill(expected.begin() + 11 * 8, expected.end(), 0);
  EXPECT_EQ(y, expected);
}

//===- Votes and arithmetic -----------------------------------------------------------------===//

TEST(Votes, AnyAndAll) {
  for (int voters : {0, 1, 31, 32}) {
    std::vector<std::uint32_t> x(32), y(32);
    std::fill_n(x.end() - voters, voters, 1);
    run("vote", x, y);
    EXPECT_EQ(y, std::vector<std::uint32_t>(32, voters == 0 ? 0 : voters < 32 ? 1 : 3)) << voters;
  }
}

TEST(Approximations, OfSomeValues) {
  std::vector<float> x(32, 1.0f), y(96);
  const float given[] = {0.0f,        -3.0f,         0.3f,           -127.0f, 1e-40f,
                         -INFINITY,   INFINITY,      3.4e38f,        NAN,     0x1.002p0f,
                         -0x1.002p0f, 0x1.001ffep0f, 0x1.fffffep127f};
  std::ranges::copy(given, x.begin());
  std::vector<std::uint32_t> rounded(32);
  runKernel(*HostLibrary::compile(matrixText),
            {.name = "approximate",
             .blocks = 1,
             .threads = 32,
             .arguments = {pointer(x), pointer(y), pointer(rounded)},
             .regions = {input("x", x), output("y", y), output("rounded", rounded)}});
  const auto tf32 = [&](int i) { return std::bit_cast<float>(rounded[i]); };
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.125f);
  EXPECT_FLOAT_EQ(y[2], std::exp2(0.3f));
  EXPECT_EQ(y[3], 0.0f); // subnormal
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_EQ(y[6], INFINITY);
  EXPECT_EQ(y[32], -INFINITY);
  EXPECT_TRUE(std::isnan(y[32 + 1]));
  EXPECT_FLOAT_EQ(y[32 + 2], std::log2(0.3f));
  EXPECT_EQ(y[32 + 4], -INFINITY); // of a subnormal number
  EXPECT_FLOAT_EQ(y[64 + 1], -1.0f / 3);
  EXPECT_EQ(y[64 + 4], INFINITY);
  EXPECT_EQ(y[64 + 7], 0.0f);
  EXPECT_TRUE(std::isnan(tf32(8)));
  EXPECT_EQ(tf32(5), -INFINITY);
  EXPECT_EQ(tf32(9), 0x1.004p0f); // ties go away from 0
  EXPECT_EQ(tf32(10), -0x1.004p0f);
  EXPECT_EQ(tf32(11), 1.0f);
  EXPECT_EQ(tf32(12), INFINITY);
}

//===- The device's text --------------------------------------------------------------------===//

TEST(Matrices, AssembleForEachTarget) {
  if (const std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  CudaJob job = deviceJob(matrixText);
  for (const char* target : {"sm_80", "sm_90a", "sm_100a", "sm_120"}) {
    job.arch = target;
    const std::size_t kernels = readCubin(compileCuda(job).cubin).kernels.size();
    EXPECT_EQ(kernels, std::string(target) == "sm_80" ? 8u : 10u) << target;
  }
  job.arch = "sm_80";
  job.source = "#include \"mma.cuh\"\nKILN_KERNEL(32, 1) k(kiln::u32* x) "
               "{ const kiln::u32 r[4] = {}; kiln::store_matrices<false>(x, r); }";
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { compileCuda(job); }),
              testing::HasSubstr("store_matrices"));
}

} // namespace
} // namespace kiln::test
