// Conversions of the host twin against a reference that rounds in double with the C library, for
// every bf16 and f16 pattern, the ties between neighbours, and what lies just beside them.
#include "test/host/Harness.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace kiln::test {
namespace {

constexpr const char* conversionText = R"(#include "row.cuh"
using namespace kiln;

template <class T, int count>
KILN_DEVICE void narrow(const float* from, T* to, i64 size) {
  const i64 i = (block_index() * 128 + thread_index()) * count;
  if (i < size)
    store_global(to + i, convert<T>(load_global<Vec<float, count>>(from + i)));
}
KILN_KERNEL(128, 1) to_bf16(const float* from, bf16* to, i64 size) { narrow<bf16, 1>(from, to, size); }
KILN_KERNEL(128, 1) to_f16(const float* from, f16* to, i64 size) { narrow<f16, 1>(from, to, size); }
KILN_KERNEL(128, 1) to_bf16x4(const float* from, bf16* to, i64 size) { narrow<bf16, 4>(from, to, size); }
KILN_KERNEL(128, 1) to_f16x4(const float* from, f16* to, i64 size) { narrow<f16, 4>(from, to, size); }

template <class T>
KILN_DEVICE void widen(const T* from, float* to, i64 size) {
  const i64 i = block_index() * 128 + thread_index();
  if (i < size)
    store_global(to + i, convert<float>(load_global<Vec<T, 1>>(from + i)));
}
KILN_KERNEL(128, 1) from_bf16(const bf16* from, float* to, i64 size) { widen(from, to, size); }
KILN_KERNEL(128, 1) from_f16(const f16* from, float* to, i64 size) { widen(from, to, size); }

KILN_KERNEL(128, 1) extremes(const float* a, const float* b, float* high, float* low, i64 size) {
  const i64 i = block_index() * 128 + thread_index();
  if (i < size) {
    const float x = load_global<float>(a + i), y = load_global<float>(b + i);
    store_global(high + i, maximum(x, y));
    store_global(low + i, minimum(x, y));
  }
}
KILN_KERNEL(32, 1) root(const float* from, float* to) {
  store_global(to + thread_index(), inverse_sqrt(load_global<float>(from + thread_index())));
}
)";

/// A binary format with 16 bits.
struct Format {
  int mantissaBits;
  int minExponent; // of the smallest normal number, 2^minExponent
  std::uint16_t infinity;

  double decode(std::uint16_t bits) const {
    int mantissa = bits & ((1 << mantissaBits) - 1), exponent = (bits & 0x7fff) >> mantissaBits;
    double magnitude = exponent == 0 ? std::ldexp(mantissa, minExponent - mantissaBits)
                                     : std::ldexp(mantissa + (1 << mantissaBits),
                                                  exponent - 1 + minExponent - mantissaBits);
    return bits & 0x8000 ? -magnitude : magnitude;
  }
  bool isNan(std::uint16_t bits) const { return (bits & 0x7fff) > infinity; }
  bool isInfinite(std::uint16_t bits) const { return (bits & 0x7fff) == infinity; }

  std::uint16_t round(float value) const {
    if (std::isnan(value))
      return 0x7fff;
    std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::abs(static_cast<double>(value));
    if (magnitude == 0)
      return sign;
    if (std::isinf(magnitude))
      return sign | infinity;
    int exponent = std::max(std::ilogb(magnitude), minExponent);
    // nearbyint rounds ties to even; a carry into the next binade gives the right pattern too.
    auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissaBits - exponent)));
    int bits = units + ((exponent - minExponent) << mantissaBits);
    return sign | static_cast<std::uint16_t>(std::min<int>(bits, infinity));
  }
};

constexpr Format bf16Format = {7, -126, 0x7f80};
constexpr Format f16Format = {10, -14, 0x7c00};

class Conversion : public testing::Test {
 protected:
  template <typename From, typename To>
  std::vector<To> run(const char* kernel, std::vector<From> from, int perThread = 1) {
    std::vector<To> to(from.size());
    HostLaunch launch = {.name = kernel,
                         .blocks = static_cast<std::int64_t>(from.size() / perThread + 127) / 128,
                         .threads = 128,
                         .arguments = {pointer(from), pointer(to), from.size()},
                         .regions = {input("from", from), output("to", to)}};
    runKernel(*library, launch);
    return to;
  }

  void checkNarrowing(const Format& format, const char* one, const char* four) {
    std::vector<float> values = interesting(format);
    auto got = run<float, std::uint16_t>(one, values);
    EXPECT_EQ((run<float, std::uint16_t>(four, values, 4)), got);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(got[i], format.round(values[i])) << std::hexfloat << values[i];
  }

  /// Each number of the format, the ties to its neighbour, and the floats beside both.
  static std::vector<float> interesting(const Format& format) {
    std::vector<float> values;
    auto addWithNeighbours = [&](float value) {
      auto bits = std::bit_cast<std::uint32_t>(value);
      for (std::uint32_t near : {bits - 1, bits, bits + 1})
        values.push_back(std::bit_cast<float>(near));
    };
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      auto bits = static_cast<std::uint16_t>(pattern);
      if ((bits & 0x7fff) >= format.infinity)
        continue;
      double here = format.decode(bits), next = format.decode(bits + 1);
      addWithNeighbours(static_cast<float>(here));
      addWithNeighbours(static_cast<float>(here + (next - here) / 2));
    }
    for (std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc12345u})
      values.push_back(std::bit_cast<float>(nan));
    for (float value :
         {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, 65504.0f, 65519.99f, 65520.0f, 65536.0f,
          std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()})
      values.push_back(value);
    std::mt19937 engine(11);
    for (int i = 0; i < 100000; ++i)
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
    values.resize((values.size() + 3) / 4 * 4);
    return values;
  }

  static std::vector<std::uint16_t> allPatterns() {
    std::vector<std::uint16_t> patterns(0x10000);
    for (std::size_t i = 0; i < patterns.size(); ++i)
      patterns[i] = static_cast<std::uint16_t>(i);
    return patterns;
  }

  std::shared_ptr<HostLibrary> library = HostLibrary::compile(conversionText);
};

TEST_F(Conversion, FloatToBf16) {
  checkNarrowing(bf16Format, "to_bf16", "to_bf16x4");
}

TEST_F(Conversion, FloatToF16) {
  checkNarrowing(f16Format, "to_f16", "to_f16x4");
}

TEST_F(Conversion, EveryBf16ToFloat) {
  auto got = run<std::uint16_t, float>("from_bf16", allPatterns());
  for (std::uint32_t i = 0; i < 0x10000; ++i) // payloads of NaNs stay
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), i << 16);
}

TEST_F(Conversion, EveryF16ToFloat) {
  auto got = run<std::uint16_t, float>("from_f16", allPatterns());
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    auto bits = static_cast<std::uint16_t>(i);
    auto want = static_cast<float>(f16Format.decode(bits));
    if (f16Format.isInfinite(bits))
      want = bits & 0x8000 ? -HUGE_VALF : HUGE_VALF;
    auto wantBits = std::bit_cast<std::uint32_t>(want);
    if (f16Format.isNan(bits))
      wantBits = 0x7fffffff;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), wantBits) << i;
  }
}

TEST_F(Conversion, MaximumAndMinimum) {
  float nan = NAN, infinity = HUGE_VALF;
  std::vector<float> values = {nan, -nan, infinity, -infinity, 0.0f, -0.0f, 1.0f, -1.0f, 1e-40f};
  std::vector<float> a, b;
  for (float x : values)
    for (float y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  std::vector<float> high(a.size()), low(a.size());
  runKernel(*library,
            {.name = "extremes",
             .blocks = 1,
             .threads = 128,
             .arguments = {pointer(a), pointer(b), pointer(high), pointer(low), a.size()},
             .regions = {input("a", a), input("b", b), output("high", high), output("low", low)}});
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(high[i]), 0x7fffffffu);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(low[i]), 0x7fffffffu);
      continue;
    }
    EXPECT_EQ(high[i], std::max(a[i], b[i]));
    EXPECT_EQ(low[i], std::min(a[i], b[i]));
    EXPECT_EQ(std::signbit(high[i]),
              high[i] == 0 ? std::signbit(a[i]) && std::signbit(b[i]) : high[i] < 0);
    EXPECT_EQ(std::signbit(low[i]),
              low[i] == 0 ? std::signbit(a[i]) || std::signbit(b[i]) : low[i] < 0);
  }
}

TEST_F(Conversion, ReciprocalRoot) {
  std::vector<float> from(32), to(32);
  for (int i = 0; i < 32; ++i)
    from[i] = std::ldexp(1.0f + 0.03f * i, 3 * i - 48);
  from[0] = 0.0f;
  from[1] = HUGE_VALF;
  runKernel(*library, {.name = "root",
                       .blocks = 1,
                       .threads = 32,
                       .arguments = {pointer(from), pointer(to)},
                       .regions = {input("from", from), output("to", to)}});
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(to[i], static_cast<float>(1 / std::sqrt(static_cast<double>(from[i]))));
}

} // namespace
} // namespace kiln::test
