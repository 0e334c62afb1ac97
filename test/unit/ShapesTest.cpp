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

/// Kernels with more to do than elements choose the shapes by that. Sizes by symbol: leading,
/// queries, keys; 16 heads of width 64.
struct AttentionShapes : testing::Test {
  AttentionShapes() {
    KernelLaunch& rows = plan.kernels.emplace_back();
    rows.family = "rows";
    KernelLaunch& kernel = plan.kernels.emplace_back();
    kernel.family = "attention";
    kernel.multiplyAdds.factors = {{0, 0}, {16, -1}, {0, 1}, {0, 2}, {128, -1}};
    plan.inputs.resize(2);
    plan.inputs[0].shape = {{0, 0}, {16, -1}, {0, 1}, {64, -1}};
    plan.inputs[1].shape = {{0, 0}, {16, -1}, {0, 2}, {64, -1}};
  }
  LaunchPlan plan;
};

TEST_F(AttentionShapes, KeepTheWorkOfTheReferenceWithinLimits) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{8, 4096, 4096}, {512, 1, 100000}, {1, 70, 70}, {4096}, {}})
    for (std::int64_t elements : {kMost, std::int64_t{1} << 16, std::int64_t{1} << 12})
      for (const Shape& shape : shapesOf({plan, sizes, elements})) {
        ASSERT_EQ(shape.sizes.size(), 3U);
        EXPECT_LE(multiplyAddsOf(plan, shape.sizes), 200.0 * double(elements)) << shape.name;
      }
}

TEST_F(AttentionShapes, HaveLengthsThatAreOddAndDiffer) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{8, 4096, 4096}, {2, 1, 1}, {2, 2, 1}, {1, 64, 65}, {}}) {
    const std::vector<Shape> shapes = shapesOf({plan, sizes, kMost});
    const Shape& tail = shapes[shapes.size() - 2];
    EXPECT_EQ(tail.sizes[1] % 2, 1) << tail.name;
    EXPECT_EQ(tail.sizes[2] % 2, 1) << tail.name;
    EXPECT_NE(tail.sizes[1], tail.sizes[2]) << tail.name;
    EXPECT_TRUE(shapes.back().leastAligned);
    EXPECT_EQ(shapes.back().sizes, tail.sizes);
  }
}

TEST_F(AttentionShapes, AreTheSizesWhereTheseAreSmall) {
  Names names;
  for (const Shape& shape : shapesOf({plan, {2, 70, 70}, kMost}))
    names.push_back(shape.name);
  EXPECT_EQ(names, (Names{"its sizes", "tail 1x69x67", "tail 1x69x67, least aligned"}));
}

} // namespace
} // namespace kiln::family
