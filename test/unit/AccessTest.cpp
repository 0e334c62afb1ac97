// How buffers are reached: strides, merged dimensions, the widest access that is proved aligned.
#include "codegen/family/Access.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::family;

namespace {

constexpr Extent fixed(std::int64_t size) {
  return {size, -1};
}
constexpr Extent runTime(int symbol) {
  return {0, symbol};
}

BufferInfo buffer(DType dtype, std::vector<Extent> shape, std::vector<std::int64_t> strides,
                  bool contiguous, std::int64_t alignment = 16) {
  BufferInfo info;
  info.tensor = {"x", dtype, std::move(shape), std::move(strides), alignment};
  info.contiguous = contiguous;
  return info;
}

TEST(Access, StridesAreConstantsProductsOrGivenAtRunTime) {
  BufferInfo inner = buffer(DType::f32, {runTime(0), runTime(1), fixed(8)}, {-1, 8, 1}, true);
  Access access = makeAccess(inner, {0, 1, 2}, 2);
  EXPECT_EQ(access.leading[0].coefficient, 8);
  ASSERT_EQ(access.leading[0].symbols.size(), 1u); // 8 * s1
  EXPECT_EQ(access.leading[0].symbols[0], 1);
  EXPECT_TRUE(access.leading[1].isConstant());
  EXPECT_EQ(access.column.coefficient, 1);
  BufferInfo given = buffer(DType::f32, {runTime(0), fixed(8)}, {-1, 1}, false);
  EXPECT_EQ(makeAccess(given, {0, 1}, 1).leading[0].runTimeDimension, 0);
  Access row = makeAccess(buffer(DType::f32, {fixed(8)}, {1}, true), {1}, 1);
  EXPECT_EQ(row.leading[0].coefficient, 0); // the same row for all
}

TEST(Access, ContiguousStridesEndAtRunTimeSizes) {
  TensorInfo tensor{"x", DType::f32, {runTime(0), fixed(3), runTime(1), fixed(8)}, {}, 16};
  makeContiguous(tensor);
  EXPECT_EQ(tensor.strides, (std::vector<std::int64_t>{-1, -1, 8, 1}));
}

TEST(Access, DimensionsMergeWhereAllBuffersWalkThemAlike) {
  std::vector<Extent> space{runTime(0), fixed(4), fixed(3)};
  using Runs = llvm::SmallVector<std::pair<size_t, size_t>>;
  BufferInfo dense =
      buffer(DType::f32, {runTime(0), fixed(4), fixed(3), fixed(8)}, {96, 24, 8, 1}, true);
  Access whole = makeAccess(dense, {0, 1, 2, 3}, 3);
  EXPECT_EQ(mergeDimensions(space, whole), (Runs{{0, 2}}));
  BufferInfo gap =
      buffer(DType::f32, {runTime(0), fixed(4), fixed(3), fixed(8)}, {200, 24, 8, 1}, false);
  Access holey = makeAccess(gap, {0, 1, 2, 3}, 3);
  EXPECT_EQ(mergeDimensions(space, {whole, holey}), (Runs{{0, 0}, {1, 2}}));
  Access repeated = makeAccess(buffer(DType::f32, {fixed(8)}, {1}, true), {3}, 3);
  EXPECT_EQ(mergeDimensions(space, {whole, repeated}), (Runs{{0, 2}}));
  Access inner = makeAccess(buffer(DType::f32, {fixed(4), fixed(3), fixed(8)}, {24, 8, 1}, true),
                            {1, 2, 3}, 3);
  EXPECT_EQ(mergeDimensions(space, {whole, inner}), (Runs{{0, 0}, {1, 2}}));
  BufferInfo given =
      buffer(DType::f32, {runTime(0), fixed(4), fixed(3), fixed(8)}, {-1, -1, 8, 1}, false);
  EXPECT_EQ(mergeDimensions(space, makeAccess(given, {0, 1, 2, 3}, 3)),
            (Runs{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(Access, RunTimeSizesMergeAsProducts) {
  std::vector<Extent> space{runTime(0), runTime(1)};
  BufferInfo dense = buffer(DType::bf16, {runTime(0), runTime(1), fixed(8)}, {-1, 8, 1}, true);
  EXPECT_EQ(mergeDimensions(space, makeAccess(dense, {0, 1, 2}, 2)).size(), 1u);
}

TEST(Access, WidestIsWhatAlignmentProves) {
  auto widest = [](DType dtype, std::int64_t stride, std::int64_t alignment, std::int64_t vector,
                   std::int64_t column = 1) {
    BufferInfo info = buffer(dtype, {runTime(0), fixed(64)}, {stride, column}, false, alignment);
    return widestAccess(makeAccess(info, {0, 1}, 1), vector);
  };
  EXPECT_EQ(widest(DType::f32, 64, 16, 4), 4);
  EXPECT_EQ(widest(DType::f32, 64, 16, 16), 16); // in pieces of 16 bytes
  EXPECT_EQ(widest(DType::f32, 66, 16, 4), 2);
  EXPECT_EQ(widest(DType::f32, 65, 16, 4), 1);
  EXPECT_EQ(widest(DType::f32, 64, 8, 4), 2);
  EXPECT_EQ(widest(DType::bf16, 64, 16, 8), 8);
  EXPECT_EQ(widest(DType::bf16, 64, 2, 8), 1);
  EXPECT_EQ(widest(DType::bf16, 100, 16, 8), 4);
  EXPECT_EQ(widest(DType::i1, 64, 16, 16), 16);
  EXPECT_EQ(widest(DType::f32, -1, 16, 4), 1);    // a stride given at run time proves nothing
  EXPECT_EQ(widest(DType::f32, 64, 16, 4, 2), 1); // columns apart
  EXPECT_EQ(widest(DType::f32, 64, 16, 4, 0), 1);
}

} // namespace
