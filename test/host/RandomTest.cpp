// The device library's generator: published vectors, and the same numbers however they are grouped.
#include "test/host/Harness.h"

namespace kiln::test {
namespace {

constexpr const char* randomText = R"(#include "row.cuh"
using namespace kiln;

KILN_KERNEL(32, 1) generate(const u64* from, u32* to) {
  if (thread_index() == 0) {
    const u64 low = load_global<u64>(from + 1), high = load_global<u64>(from + 2);
    Vec<u32, 4> words[1] = {{u32(low), u32(low >> 32), u32(high), u32(high >> 32)}};
    philox(load_global<u64>(from), words);
    for (int i = 0; i < 4; ++i)
      store_global(to + i, words[0][i]);
  }
}

template <int count> KILN_DEVICE void numbers(u64 seed, u64 offset, i64 first, i32* words, i32* halves, float* parts) {
  const i64 at = thread_index() * count;
  store_vector<count>(words + at, random_vector<i32, 32, count>(seed, offset, first + at));
  store_vector<count>(halves + at, random_vector<i32, 16, count>(seed, offset, first + at));
  store_vector<count>(parts + at, random_vector<float, 32, count>(seed, offset, first + at));
}
KILN_KERNEL(32, 1) by1(u64 s, u64 o, i64 f, i32* w, i32* h, float* p) { numbers<1>(s, o, f, w, h, p); }
KILN_KERNEL(32, 1) by2(u64 s, u64 o, i64 f, i32* w, i32* h, float* p) { numbers<2>(s, o, f, w, h, p); }
KILN_KERNEL(32, 1) by4(u64 s, u64 o, i64 f, i32* w, i32* h, float* p) { numbers<4>(s, o, f, w, h, p); }
KILN_KERNEL(32, 1) by8(u64 s, u64 o, i64 f, i32* w, i32* h, float* p) { numbers<8>(s, o, f, w, h, p); }
KILN_KERNEL(32, 1) by16(u64 s, u64 o, i64 f, i32* w, i32* h, float* p) { numbers<16>(s, o, f, w, h, p); }
)";

class Random : public testing::Test {
 protected:
  std::vector<std::uint32_t> philox(std::vector<std::uint64_t> keyAndCounter) {
    std::vector<std::uint32_t> words(4);
    runKernel(*library, {.name = "generate",
                         .blocks = 1,
                         .threads = 32,
                         .arguments = {pointer(keyAndCounter), pointer(words)},
                         .regions = {input("from", keyAndCounter), output("to", words)}});
    return words;
  }

  std::shared_ptr<HostLibrary> library = HostLibrary::compile(randomText);
};

using Words = std::vector<std::uint32_t>;

/// Salmon et al. publish these with their generators (Random123, kat_vectors).
TEST_F(Random, PublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0ull, ~0ull, ~0ull}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_F(Random, TheSameNumbersHoweverGrouped) {
  constexpr std::uint64_t seed = 0x299f31d0a4093822, offset = 77;
  constexpr std::int64_t first = 0x123456789abcdef0; // beyond 2^34 the counter's second word counts
  for (int count : {1, 2, 4, 8, 16}) {
    std::vector<std::int32_t> words(32 * count), halves(words.size());
    std::vector<float> parts(words.size());
    runKernel(*library,
              {.name = "by" + std::to_string(count),
               .blocks = 1,
               .threads = 32,
               .arguments = {seed, offset, first, pointer(words), pointer(halves), pointer(parts)},
               .regions = {output("w", words), output("h", halves), output("p", parts)}});
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint32_t word = philox({seed, (first + i) / 4, offset})[i % 4];
      ASSERT_EQ(static_cast<std::uint32_t>(words[i]), word) << count << " at " << i;
      const std::uint32_t two = philox({seed, (first + i) / 8, offset})[i / 2 % 4];
      ASSERT_EQ(static_cast<std::uint32_t>(halves[i]), i % 2 ? two & 0xffff0000 : two << 16)
          << count << " at " << i;
      ASSERT_EQ(parts[i], static_cast<float>((word >> 8) * 0x1p-24)) << count << " at " << i;
    }
  }
}

} // namespace
} // namespace kiln::test
