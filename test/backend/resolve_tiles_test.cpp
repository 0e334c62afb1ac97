// Filling in the sizes of launches by tiles: their grids, their tensor maps, and every refusal.
#include "codegen/backend/Resolve.h"
#include "test/backend/Helpers.h"
#include "test/backend/Plans.h"
#include "test/backend/TileKernel.h"

using namespace kiln;
using namespace kiln::test;

namespace {

/// The buffers of tilePlan(), whose x lies apart.
ResolvedLaunch resolveTiles(const LaunchPlan& plan, std::int64_t batches, std::int64_t rows,
                            std::uintptr_t x = 0x1000, std::int64_t apart = 320) {
  const Buffer inputs[] = {{pointer(x), {batches, rows, 4, 64}, {rows * apart, apart, 64, 1}},
                           {pointer(0x2000), {rows, 64}, {}}};
  const Buffer outputs[] = {{pointer(0x3000), {batches, rows, 4, 64}, {}}};
  return resolve(plan, inputs, outputs, 132, nullptr);
}

TEST(Resolve, GridsOfTiles) {
  using Grid = std::array<std::int64_t, 3>;
  const LaunchPlan plan = tilePlan();
  const ResolvedKernel kernel = resolveTiles(plan, 7, 150).kernels[0];
  EXPECT_EQ(kernel.grid, (Grid{2 * 4, 2, 1}));
  EXPECT_EQ(kernel.blocks, 16);
  EXPECT_EQ(resolveTiles(plan, 7, 0).kernels[0].blocks, 0);
  LaunchPlan other = plan;
  other.kernels[0].tiles.push_back({{{{{0, 1}}}, 1}}); // z: batches
  EXPECT_EQ(resolveTiles(other, 7, 129).kernels[0].grid, (Grid{8, 2, 7}));
  // Blocks that take several tiles: no more than are resident, in whole clusters.
  other.kernels[0].tiles.resize(1);
  other.kernels[0].blocks = 1;
  EXPECT_EQ(resolveTiles(other, 1, 128 * 40).kernels[0].grid, (Grid{132, 1, 1}));
  EXPECT_EQ(resolveTiles(other, 1, 128).kernels[0].grid, (Grid{4, 1, 1}));
}

TEST(Resolve, GridsOfTilesThatAreTooLarge) {
  LaunchPlan plan = tilePlan();
  plan.kernels[0].tensorMaps.clear();
  for (KernelArgument& argument : plan.kernels[0].arguments)
    if (argument.kind == KernelArgument::Kind::tensorMap)
      argument.kind = KernelArgument::Kind::buffer;
  const auto error = [&](std::int64_t batches, std::int64_t rows) {
    return errorOf(ErrorKind::input, [&] { resolveTiles(plan, batches, rows); });
  };
  EXPECT_EQ(resolveTiles(plan, 1, 128ll * 536870911).kernels[0].grid[0], 2147483644);
  EXPECT_EQ(
      error(1, 128ll * 536870912),
      "kernel 'scale_tiles': 2147483648 tiles need as many blocks in x, a grid may have "
      "2147483647 there; take larger tiles, split the batch or let blocks take several tiles");
  plan.kernels[0].tiles[1] = {{{{{0, 1}}}, 1}};
  EXPECT_EQ(resolveTiles(plan, 65535, 1).kernels[0].blocks, 4 * 65535);
  EXPECT_EQ(error(65536, 1),
            "kernel 'scale_tiles': 65536 tiles need as many blocks in y, a grid may have 65535 "
            "there; take larger tiles, split the batch or count these tiles in x");
}

TEST(Resolve, TensorMaps) {
  const ResolvedKernel kernel = resolveTiles(tilePlan(), 7, 150).kernels[0];
  ASSERT_EQ(kernel.maps.size(), 3u);
  const TensorMapView x{.address = 0x1000,
                        .sizes = {64, 150, 4, 7},
                        .strides = {640, 128, 96000},
                        .box = {64, 64, 1, 1},
                        .rank = 4,
                        .dtype = DType::bf16,
                        .swizzle = 128,
                        .promotion = 128};
  EXPECT_EQ(kernel.maps[0], x);
  const TensorMapView y{.address = 0x3000,
                        .sizes = {64, 150, 4, 7},
                        .strides = {512, 128, 76800},
                        .box = {32, 64, 1, 1},
                        .rank = 4,
                        .dtype = DType::bf16,
                        .swizzle = 64};
  EXPECT_EQ(kernel.maps[2], y);
  EXPECT_EQ(kernel.arguments, (std::vector<std::uint64_t>{0x1000, 0x2000, 0x3000, 7}));
  // By sizes and pointers: of packed tensors.
  const std::int64_t sizes[] = {150, 7};
  void* const pointers[] = {pointer(0x1000), pointer(0x2000), pointer(0x3000)};
  ResolvedLaunch launch;
  Resolver(tilePlan()).resolve(sizes, pointers, 132, nullptr, launch);
  EXPECT_EQ(launch.kernels[0].maps[0].strides, y.strides);
  LaunchPlan other = tilePlan(); // whose first map is the other: nothing of the last stays
  std::swap(other.kernels[0].tensorMaps[0], other.kernels[0].tensorMaps[1]);
  std::swap(other.kernels[0].arguments[0].map, other.kernels[0].arguments[1].map);
  Resolver(other).resolve(sizes, pointers, 132, nullptr, launch);
  EXPECT_EQ(launch.kernels[0].maps[0], kernel.maps[1]);
}

TEST(Resolve, StridesOfSingleElementsDoNotMatter) {
  const Buffer inputs[] = {{pointer(0x1000), {1, 1, 4, 64}, {7, 3, 64, 1}},
                           {pointer(0x2000), {1, 64}, {}}};
  const Buffer outputs[] = {{pointer(0x3000), {1, 1, 4, 64}, {}}};
  EXPECT_EQ(resolve(tilePlan(), inputs, outputs, 132, nullptr).kernels[0].maps[0].strides,
            (std::array<std::uint64_t, 4>{32, 128, 32}));
}

TEST(Resolve, TensorMapsOfAWorkspace) {
  LaunchPlan plan = tilePlan();
  plan.workspaces = {{"first", DType::f32, 1, -1, {}},
                     {"scratch", DType::bf16, 64, -1, {{{0, 0}}}}};
  plan.kernels[0].arguments[1].name = "scratch";
  const Buffer inputs[] = {{pointer(0x1000), {1, 8, 4, 64}, {}}, {pointer(0x2000), {8, 64}, {}}};
  const Buffer outputs[] = {{pointer(0x3000), {1, 8, 4, 64}, {}}};
  const ResolvedLaunch launch = resolve(plan, inputs, outputs, 132, pointer(0x10000));
  EXPECT_EQ(launch.kernels[0].maps[1].address, 0x10100u);
}

TEST(Resolve, TensorMapsThatTheDriverRefuses) {
  const auto error = [](auto... values) {
    LaunchPlan plan = tilePlan();
    plan.inputs[0].alignment = 2;
    return errorOf(ErrorKind::input, [&] { resolveTiles(plan, values...); });
  };
  EXPECT_EQ(
      error(7, 150, 0x1008),
      "kernel 'scale_tiles': the tensor map of 'x': the pointer is aligned to 8 bytes, tensor "
      "maps need 16; copy the tensor");
  EXPECT_HAS(error(7, 150, 0x1000, 260),
             "the stride of dimension 1 is 520 bytes; a tensor map takes multiples of 16 below "
             "1099511627776, so copy the tensor to rows that are padded");
  EXPECT_HAS(error(7, 150, 0x1000, std::int64_t(1) << 39), "is 1099511627776 bytes; a tensor map");
  EXPECT_HAS(error(1, (std::int64_t(1) << 32) + 1),
             "dimension 1 has 4294967297 elements; a tensor map takes 1 to 4294967296");
}

TEST(Resolve, TensorMapsOfNothing) {
  LaunchPlan plan = tilePlan();
  EXPECT_EQ(resolveTiles(plan, 1, 150).kernels[0].maps[0].rank, 4);
  const ResolvedLaunch launch = resolveTiles(plan, 0, 150);
  EXPECT_GT(launch.kernels[0].blocks, 0); // launched all the same
  EXPECT_EQ(launch.kernels[0].maps[0], TensorMapView{});
}

} // namespace
