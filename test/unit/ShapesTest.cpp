// The shapes at which kernels of tiles of leading dimensions are compared with fp64.
#include "codegen/family/Shapes.h"

#include <gtest/gtest.h>

namespace kiln::family {
namespace {

constexpr std::int64_t kMost = 1 << 20;
constexpr LeadingSizes kLeading{.tail = 997, .few = 131};

/// A function of one tensor with these sizes; -1: known at run time, each a symbol of its own.
LaunchPlan planOf(const std::vector<std::int64_t>& shape) {
  LaunchPlan plan;
  TensorInfo& tensor = plan.inputs.emplace_back();
  int symbols = 0;
  for (std::int64_t size : shape)
    tensor.shape.push_back(size < 0 ? Extent{0, symbols++} : Extent{size, -1});
  return plan;
}

std::vector<std::string> namesOf(const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& sizes) {
  const LaunchPlan plan = planOf(shape);
  std::vector<std::string> names;
  for (const Shape& found : leadingShapes({plan, sizes, kMost}, kLeading))
    names.push_back(found.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(LeadingShapes, AreTheSizesOrAsMuchAsTheHostFollowsAndATail) {
  EXPECT_EQ(namesOf({-1, 64}, {4096}), (Names{"its sizes", "tail 997", "tail 997, least aligned"}));
  EXPECT_EQ(namesOf({-1, 128}, {65536}),
            (Names{"size 8192", "tail 997", "tail 997, least aligned"}));
  EXPECT_EQ(namesOf({-1, 32768}, {8192}), (Names{"size 32", "tail 7", "tail 7, least aligned"}));
}

/// The rows of a kernel are a product of sizes: no tile divides that of the tail.
TEST(LeadingShapes, HaveATailWhateverTheFirstSizeIs) {
  EXPECT_EQ(namesOf({-1, -1, 64}, {1, 8192}),
            (Names{"its sizes", "tail 1x997", "tail 1x997, least aligned"}));
  EXPECT_EQ(namesOf({-1, -1, 128}, {8, 4096}),
            (Names{"size 8x1024", "tail 7x255", "tail 7x255, least aligned"}));
  EXPECT_EQ(namesOf({-1, -1, 1 << 18}, {64, 64}),
            (Names{"size 1x4", "tail 1x1", "tail 1x1, least aligned"}));
}

TEST(LeadingShapes, OfFixedSizesAreThese) {
  EXPECT_EQ(namesOf({4096, 64}, {}), (Names{"its sizes", "its sizes, least aligned"}));
  EXPECT_EQ(namesOf({-1, 64}, {1}), (Names{"its sizes", "its sizes, least aligned"}));
}

/// As many rows as make some blocks, or fewer of wide ones; odd.
TEST(LeadingShapes, AreFewWhereNoSizeIsAskedFor) {
  EXPECT_EQ(namesOf({-1, 64}, {}), (Names{"size 131", "size 131, least aligned"}));
  EXPECT_EQ(namesOf({-1, 32768}, {}), (Names{"size 25", "size 25, least aligned"}));
  const LaunchPlan plan = planOf({-1, -1, 2});
  EXPECT_EQ(leadingShapes({plan, {}, kMost}, kLeading)[0].sizes, (std::vector<std::int64_t>{131}));
}

/// Texts of strangers may have tensors that no number of bytes counts.
TEST(LeadingShapes, CountNoFurtherThanNumbersGo) {
  EXPECT_EQ(namesOf({-1, std::int64_t{1} << 40, std::int64_t{1} << 40}, {16}).front(), "size 1");
}

} // namespace
} // namespace kiln::family
