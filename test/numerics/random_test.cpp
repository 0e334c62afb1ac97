// Random numbers beyond the table: against published vectors and bit for bit under many schedules;
// what dropout keeps, forward and backward; that stochastic rounding is right on average.
#include "dialect/Random.h"
#include "kiln/kiln.h"
#include "test/numerics/Skip.h"
#include "test/numerics/Values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fmt/format.h>

using namespace kiln;
using kiln::test::fromBf16;
using kiln::test::skipIfUnavailable;

namespace {

using Shape = std::vector<std::int64_t>;

/// A compiled function of x, seed and offset with one result of x's shape.
class Function {
 public:
  explicit Function(const std::string& text, const std::string& schedule = "",
                    bool backward = false) {
    CompileOptions options;
    options.until = Stage::cuda;
    options.schedule = schedule;
    options.backward = backward;
    program = Program::compile(Module::parse(text), options);
  }

  /// Inputs are found by name; a backward takes no x but dy.
  template <class To, class From>
  std::vector<To> run(std::vector<From> x, Shape shape, std::int64_t seed, std::int64_t offset) {
    std::vector<To> y(x.size());
    std::vector<Buffer> inputs;
    for (const TensorInfo& info : program->inputs())
      inputs.push_back(info.name == "seed"     ? Buffer{&seed, {}, {}}
                       : info.name == "offset" ? Buffer{&offset, {}, {}}
                                               : Buffer{x.data(), shape, {}});
    std::vector<Buffer> outputs{{y.data(), shape, {}}};
    program->runOnHost(inputs, outputs);
    return y;
  }

 private:
  std::optional<Program> program;
};

constexpr const char* kSeeds = "%seed: tensor<i64> {kiln.name = \"seed\"}, %offset: tensor<i64> "
                               "{kiln.name = \"offset\"}";

std::string dropoutText(double p, const std::string& shared = "") {
  return fmt::format(
      "func.func @dropout(%x: tensor<?x8x24xf32> {{kiln.name = \"x\"}}, {}) -> "
      "tensor<?x8x24xf32> {{\n  %y = kiln.dropout %x, %seed, %offset p {:e}{} : "
      "tensor<?x8x24xf32> -> tensor<?x8x24xf32>\n  return %y : tensor<?x8x24xf32>\n}}",
      kSeeds, p, shared);
}

/// `count` draws of probability `p` are within five standard deviations.
void expectRate(double hits, double count, double p, const std::string& what) {
  EXPECT_NEAR(hits, count * p, 5 * std::sqrt(count * p * (1 - p))) << what;
}

using Words = std::array<std::uint32_t, 4>;

/// Salmon et al. publish these with their generators (Random123, kat_vectors).
TEST(Random, ReferenceGivesPublishedVectors) {
  EXPECT_EQ(ir::philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(ir::philox(~0ull, ~0ull, ~0ull),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(ir::philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Words of elements, of columns, of rows and one for all, exclusive-ored: every way to hold them.
/// The last are of lower rank and have seed and offset exchanged, and 32 bits.
std::string wordsText(std::int64_t n, int bits) {
  std::string shapes[] = {
      fmt::format("tensor<?x3x{}xi32>", n), fmt::format("tensor<1x3x{}xi32>", n),
      fmt::format("tensor<1x1x{}xi32>", n), "tensor<?x3x1xi32>", "tensor<1x1x1xi32>"};
  std::string text = fmt::format("func.func @words(%x: {} {{kiln.name = \"x\"}}, {}) -> {} {{\n",
                                 shapes[0], kSeeds, shapes[0]);
  std::string sum = "%x";
  for (std::size_t i = 0; i < std::size(shapes); ++i) {
    text += fmt::format("  %u{0} = kiln.random %seed, %offset bits {4} like %x : {1} -> {2}\n"
                        "  %b{0} = kiln.broadcast %u{0} dims [0, 1, 2] like %x : {2}, {1} -> {1}\n"
                        "  %s{0} = arith.xori {3}, %b{0} : {1}\n",
                        i, shapes[0], shapes[i], sum, bits);
    sum = fmt::format("%s{}", i);
  }
  return text + fmt::format(
                    "  %u = kiln.random %offset, %seed -> tensor<3x{1}xi32>\n"
                    "  %b = kiln.broadcast %u dims [1, 2] like %x : tensor<3x{1}xi32>, {2} -> {2}\n"
                    "  %s = arith.xori {0}, %b : {2}\n  return %s : {2}\n}}",
                    sum, n, shapes[0]);
}

/// Every vector, lanes within a thread, a warp and beyond, one tile a block and many.
std::vector<std::string> schedulesOf(std::int64_t n) {
  std::vector<std::string> texts{""};
  for (int vector : {1, 2, 4, 8, 16})
    for (int lanes : {1, 8, 64})
      for (int rows : {1, 3}) {
        bool fits = lanes <= std::max<std::int64_t>(32, n / vector) && rows * n <= 64 * lanes;
        if (n % vector == 0 && fits)
          texts.push_back(fmt::format(
              "#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = 64, blocks = 1, {}, "
              "launch = programmatic>",
              lanes, vector, rows,
              rows == 1 ? "grid = one_shot, keep = registers" : "grid = resident, keep = shared"));
      }
  return texts;
}

TEST(Random, NoScheduleChangesANumber) {
  constexpr std::int64_t rows = 7;
  constexpr std::uint64_t seed = 0x9e3779b97f4a7c15, offset = 0xfedcba9876543210;
  auto word = [](std::int64_t i, int bits, bool exchanged = false) -> std::int32_t {
    if (bits == 16) { // the lower half first
      std::uint32_t two = ir::philox(seed, i / 8, offset)[i / 2 % 4];
      return static_cast<std::int32_t>(i % 2 == 1 ? two & 0xffff0000 : two << 16);
    }
    auto words = exchanged ? ir::philox(offset, i / 4, seed) : ir::philox(seed, i / 4, offset);
    return static_cast<std::int32_t>(words[i % 4]);
  };
  skipIfUnavailable([&] {
    using Sample = std::pair<std::int64_t, int>;
    for (auto [n, bits] : {Sample{1, 16}, {3, 32}, {6, 16}, {35, 32}, {144, 16}, {144, 32}}) {
      std::vector<std::int32_t> expected(rows * 3 * n);
      for (std::int64_t i = 0; i < std::ssize(expected); ++i)
        expected[i] = word(i, bits) ^ word(i % (3 * n), bits) ^ word(i % n, bits) ^
                      word(i / n, bits) ^ word(0, bits) ^ word(i % (3 * n), 32, true);
      for (const std::string& schedule : schedulesOf(n)) {
        Function words(wordsText(n, bits), schedule);
        std::vector<std::int32_t> x(expected.size());
        ASSERT_EQ(words.run<std::int32_t>(x, {rows, 3, n}, seed, offset), expected)
            << n << " " << bits << " " << schedule;
      }
    }
  });
}

TEST(Random, NumbersAreUniform) {
  ir::Tensor64 seed = ir::makeTensor64({}, 3), offset = ir::makeTensor64({}, 5);
  for (int bits : {16, 32}) {
    ir::RandomNumbers numbers(seed, offset, bits);
    constexpr std::int64_t count = 1 << 18;
    std::vector<double> bins(64);
    for (std::int64_t i = 0; i < count; ++i) {
      double u = numbers.uniform(i);
      ASSERT_TRUE(u >= 0 && u < 1) << u;
      ++bins[static_cast<std::size_t>(u * 64)];
    }
    for (double hits : bins)
      expectRate(hits, count, 1.0 / 64, "of a bin");
  }
}

TEST(Dropout, KeepsTheRightShareAndScalesIt) {
  skipIfUnavailable([] {
    constexpr std::int64_t rows = 512, count = rows * 8 * 24;
    std::vector<float> ones(count, 1.0f);
    for (double p : {0.005, 0.1, 0.5, 0.85}) { // the first with 32 bits
      Function dropout(dropoutText(p));
      auto y = dropout.run<float>(ones, {rows, 8, 24}, 1, 2);
      auto scale = static_cast<float>(1 / (1 - static_cast<double>(static_cast<float>(p))));
      double kept = 0, ofLane[8] = {}, pairs = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(y[i] == 0 || y[i] == scale) << y[i];
        kept += y[i] != 0;
        ofLane[i % 8] += y[i] != 0;
        pairs += i % 2 && y[i] != 0 && y[i - 1] != 0; // neighbours are independent
      }
      expectRate(kept, count, 1 - p, "kept");
      for (double hits : ofLane)
        expectRate(hits, count / 8.0, 1 - p, "of one of eight neighbours");
      expectRate(pairs, count / 2.0, (1 - p) * (1 - p), "of neighbours");
      auto other = [&](std::int64_t seed, std::int64_t offset) {
        auto z = dropout.run<float>(ones, {rows, 8, 24}, seed, offset);
        double both = 0;
        for (std::int64_t i = 0; i < count; ++i)
          both += y[i] != 0 && z[i] != 0;
        expectRate(both, count, (1 - p) * (1 - p), "kept under two seeds or offsets");
      };
      other(2, 2);
      other(1, 3);
      other(1 | std::int64_t{1} << 40, 2);
    }
  });
}

TEST(Dropout, GradientHasTheSameMask) {
  skipIfUnavailable([] {
    constexpr std::int64_t rows = 9;
    std::vector<float> x(rows * 8 * 24);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = 1 + static_cast<float>(i % 5);
    for (const char* shared : {"", " shared [0]", " shared [1]", " shared [0, 1]", " shared [2]"}) {
      auto y = Function(dropoutText(0.4, shared)).run<float>(x, {rows, 8, 24}, 11, 12);
      auto dx = Function(dropoutText(0.4, shared), "", true).run<float>(x, {rows, 8, 24}, 11, 12);
      EXPECT_EQ(dx, y) << shared; // dropout is linear: with dy = x, dx = y
      EXPECT_GT(std::ranges::count(y, 0.0f), 0);
      EXPECT_LT(std::ranges::count(y, 0.0f), std::ssize(y));
    }
  });
}

class StochasticRound : public testing::Test {
 protected:
  std::vector<std::uint16_t> round(const std::vector<float>& x) {
    Function function(fmt::format(
        "func.func @round(%x: tensor<?x64xf32> {{kiln.name = \"x\"}}, {}) -> tensor<?x64xbf16> {{\n"
        "  %y = kiln.stochastic_round %x, %seed, %offset : tensor<?x64xf32> -> tensor<?x64xbf16>\n"
        "  return %y : tensor<?x64xbf16>\n}}",
        kSeeds));
    return function.run<std::uint16_t>(x, {std::ssize(x) / 64, 64}, 21, 22);
  }
};

TEST_F(StochasticRound, IsRightOnAverage) {
  skipIfUnavailable([&] {
    constexpr std::int64_t count = 1 << 14;
    std::vector<float> values = {1.001f, 1.00390625f, -3.14159f, 0.1f, 1e-39f, 255.9f, -1.99999f};
    std::vector<float> x;
    for (float value : values)
      x.insert(x.end(), count, value);
    auto y = round(x);
    for (std::size_t v = 0; v < values.size(); ++v) {
      auto bits = std::bit_cast<std::uint32_t>(values[v]);
      auto towardsZero = static_cast<std::uint16_t>(bits >> 16);
      double away = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint16_t got = y[v * count + i];
        ASSERT_TRUE(got == towardsZero || got == towardsZero + 1) << values[v] << " " << got;
        away += got != towardsZero;
      }
      expectRate(away, count, (bits & 0xffff) / 65536.0, fmt::format("of {}", values[v]));
    }
  });
}

TEST_F(StochasticRound, KeepsWhatIsExactAndWhatIsNoNumber) {
  skipIfUnavailable([&] {
    std::vector<float> x(64 * 64);
    for (std::size_t i = 0; i < x.size(); ++i) // numbers of bf16, both infinities among them
      x[i] = fromBf16(static_cast<std::uint16_t>(i * 0x10));
    x[1] = std::bit_cast<float>(0x7f800001u); // NaNs whose kept bits alone would be infinity or 0
    x[2] = std::bit_cast<float>(0x7fffffffu);
    x[3] = std::bit_cast<float>(0xffffffffu);
    auto y = round(x);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::isnan(x[i]))
        EXPECT_TRUE(std::isnan(fromBf16(y[i]))) << i;
      else
        EXPECT_EQ(y[i], std::bit_cast<std::uint32_t>(x[i]) >> 16) << i;
  });
}

/// Between the largest number and 2^128, which counts as infinity.
TEST_F(StochasticRound, MayOverflow) {
  skipIfUnavailable([&] {
    std::vector<float> x(1 << 14, std::bit_cast<float>(0x7f7f4000u));
    double infinite = 0;
    for (std::uint16_t bits : round(x)) {
      ASSERT_TRUE(bits == 0x7f7f || bits == 0x7f80);
      infinite += bits == 0x7f80;
    }
    expectRate(infinite, static_cast<double>(x.size()), 0.25, "infinite");
  });
}

} // namespace
