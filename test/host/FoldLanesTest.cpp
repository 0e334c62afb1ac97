// fold_lanes (device/reduce.cuh), proved by enumeration: for every count of values and every lane,
// which value the lane ends up with. A slot of shared memory that two lanes claim is a race.
#include "test/host/Harness.h"

#include <fmt/format.h>

#include <set>

namespace kiln::test {
namespace {

constexpr int lanes = 32, most = 32; // a warp's lanes; the values that store_line folds at a time

std::string textOfKernels() {
  std::string text = R"(#include "row.cuh"
using namespace kiln;

template <int count> KILN_DEVICE void fold(const float* x, i32* held, float* result, i32* sharing) {
  float values[count];
  for (int i = 0; i < count; ++i)
    values[i] = load_global<float>(x + thread_index() * 32 + i);
  store_global(held + thread_index(), fold_lanes<Sum, count>(values));
  store_global(result + thread_index(), values[0]);
  store_global(sharing + thread_index(), lanes_with_one(count));
}
)";
  for (int count = 1; count <= most; ++count)
    text += fmt::format("KILN_KERNEL(32, 1) fold_{0}(const float* x, i32* held, float* result, "
                        "i32* sharing) {{\n  fold<{0}>(x, held, result, sharing);\n}}\n",
                        count);
  return text;
}

TEST(FoldLanes, EachValueIsOfOneGroupOfLanesAndNoOther) {
  const auto library = HostLibrary::compile(textOfKernels());
  std::vector<float> x(lanes * 32);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 7919 % 1009); // their sums are exact
  for (int count = 1; count <= most; ++count) {
    std::vector<std::int32_t> held(lanes, -1), sharing(lanes);
    std::vector<float> result(lanes);
    const std::string name = fmt::format("fold_{}", count);
    runKernel(*library,
              {.name = name,
               .blocks = 1,
               .threads = lanes,
               .arguments = {pointer(x), pointer(held), pointer(result), pointer(sharing)},
               .regions = {input("x", x), output("held", held), output("result", result),
                           output("sharing", sharing)}});
    std::set<int> written;
    for (int lane = 0; lane < lanes; ++lane) {
      const int value = held[lane];
      ASSERT_GE(value, 0) << count << " values, lane " << lane;
      if (value >= count)
        continue;
      float sum = 0;
      for (int of = 0; of < lanes; ++of)
        sum += x[of * 32 + value];
      EXPECT_EQ(result[lane], sum) << count << " values, lane " << lane;
      if (lane % sharing[lane] == 0) {
        EXPECT_TRUE(written.insert(value).second)
            << "of " << count << " values lane " << lane << " claims value " << value
            << ", which another lane writes";
      }
    }
    EXPECT_EQ(written.size(), static_cast<std::size_t>(count)) << count << " values";
  }
}

} // namespace
} // namespace kiln::test
