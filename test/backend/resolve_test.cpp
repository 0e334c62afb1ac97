// Filling in the sizes of a launch: grids, workspaces, arguments, and every refusal.
#include "codegen/backend/Resolve.h"
#include "test/backend/Helpers.h"
#include "test/backend/Plans.h"

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;

namespace {

/// The buffers of rowPlan() for some number of rows; tests change what they need.
struct Call {
  explicit Call(std::int64_t rows)
      : inputs{{pointer(0x1000), {rows, 128}, {}}, {pointer(0x2000), {128}, {}}},
        outputs{{pointer(0x3000), {rows, 128}, {}}, {pointer(0x4004), {128}, {}}} {}

  ResolvedLaunch resolve(const LaunchPlan& plan = rowPlan(), int multiprocessors = 132) const {
    return kiln::resolve(plan, inputs, outputs, multiprocessors, workspace);
  }
  std::string error(const LaunchPlan& plan = rowPlan()) const {
    return errorOf(ErrorKind::input, [&] { resolve(plan); });
  }

  std::vector<Buffer> inputs, outputs;
  void* workspace = pointer(0x10000);
};

TEST(Resolve, GridsAndArguments) {
  Call call(100);
  call.inputs[0].strides = {256, 1};
  ResolvedLaunch launch = call.resolve();
  ASSERT_EQ(launch.kernels.size(), 2u);
  EXPECT_EQ(launch.kernels[0].blocks, 13); // ceil(100 / 8) < 2 * 132
  EXPECT_EQ(launch.kernels[1].blocks, 1);
  EXPECT_EQ(launch.workspaceBytes, 256u + 13 * 512); // one flag, padded; then the partial sums
  EXPECT_EQ(launch.kernels[0].arguments,
            (std::vector<std::uint64_t>{0x1000, 256, 0x2000, 0x3000, 0x10100, 100, 12800}));
  EXPECT_EQ(launch.kernels[1].arguments,
            (std::vector<std::uint64_t>{0x10100, 0x4004, 0x10000, 13}));
}

/// Whatever it is: vectors of a row that is fetched though it is none must begin aligned.
TEST(Resolve, ThereIsNoStrideBetweenRowsOfOne) {
  Call call(1);
  call.inputs[0].strides = {7, 1};
  EXPECT_EQ(call.resolve().kernels[0].arguments[1], 0u);
}

TEST(Resolve, GridKinds) {
  LaunchPlan plan = rowPlan();
  EXPECT_EQ(Call(1 << 20).resolve(plan).kernels[0].blocks, 264); // resident: 2 * 132
  EXPECT_EQ(Call(9).resolve(plan).kernels[0].grid, (std::array<std::int64_t, 3>{2, 1, 1}));
  plan.kernels[0].grid = KernelLaunch::Grid::oneShot;
  EXPECT_EQ(Call(1 << 20).resolve(plan).kernels[0].blocks, 1 << 17);
  EXPECT_EQ(Call((1 << 20) + 1).resolve(plan).kernels[0].blocks, (1 << 17) + 1);
  plan.kernels[0].cluster = 2; // both blocks work on the same 8 rows
  EXPECT_EQ(Call(8 * 13).resolve(plan).kernels[0].blocks, 26);
  plan.kernels[0].grid = KernelLaunch::Grid::resident;
  plan.kernels[0].blocks = 1;
  EXPECT_EQ(Call(1 << 20).resolve(plan, 131).kernels[0].blocks, 130);
  EXPECT_EQ(Call(1 << 20).resolve(plan, 1).kernels[0].blocks, 2);
}

TEST(Resolve, NoRows) {
  Call call(0);
  call.inputs[0].data = call.outputs[0].data = nullptr; // fine: the tensors are empty
  ResolvedLaunch launch = call.resolve();
  EXPECT_EQ(launch.kernels[0].blocks, 0);
  EXPECT_EQ(launch.kernels[1].blocks, 1);
  EXPECT_EQ(launch.kernels[1].arguments[3], 0u);
  EXPECT_EQ(launch.workspaceBytes, 256u);
}

std::vector<void*> pointersOf(const Call& call) {
  std::vector<void*> pointers;
  for (const auto* buffers : {&call.inputs, &call.outputs})
    for (const Buffer& buffer : *buffers)
      pointers.push_back(buffer.data);
  return pointers;
}

/// What launches often passes sizes and pointers, and gets what packed buffers would give; one of
/// the two plans takes a stride as an argument.
TEST(Resolve, SizesAndPointers) {
  LaunchPlan fixed = rowPlan();
  fixed.inputs[0].strides = {128, 1};
  std::erase_if(fixed.kernels[0].arguments, [](const KernelArgument& argument) {
    return argument.kind == KernelArgument::Kind::stride;
  });
  const Call call(100);
  const std::int64_t rows[] = {100};
  for (const LaunchPlan& plan : {fixed, rowPlan()}) {
    const Resolver resolver(plan);
    ResolvedLaunch expected, launch;
    resolver.resolve(call.inputs, call.outputs, 132, call.workspace, expected);
    resolver.resolve(rows, pointersOf(call), 132, call.workspace, launch);
    ASSERT_EQ(launch.kernels.size(), expected.kernels.size());
    for (std::size_t k = 0; k < launch.kernels.size(); ++k) {
      EXPECT_EQ(launch.kernels[k].blocks, expected.kernels[k].blocks);
      EXPECT_EQ(launch.kernels[k].arguments, expected.kernels[k].arguments);
    }
    EXPECT_EQ(resolver.workspaceBytes(rows, 132), expected.workspaceBytes);
  }
}

TEST(Resolve, SizesAndPointersRefused) {
  const Call call(100);
  const Resolver resolver(rowPlan());
  const std::vector<void*> pointers = pointersOf(call);
  ResolvedLaunch launch;
  auto refused = [&](std::span<const std::int64_t> sizes, std::span<void* const> given,
                     void* workspace) {
    return errorOf(ErrorKind::input,
                   [&] { resolver.resolve(sizes, given, 132, workspace, launch); });
  };
  const std::int64_t rows[] = {100}, two[] = {1, 2}, negative[] = {-1};
  EXPECT_EQ(refused(two, pointers, call.workspace),
            "'norm': 2 run-time sizes given, it has 1; give one a symbol");
  EXPECT_EQ(refused(negative, pointers, call.workspace),
            "'norm': the run-time size s0 is -1; allowed are 0 or more");
  EXPECT_EQ(refused(rows, std::span(pointers).first(3), call.workspace),
            "'norm': 3 pointers given, it has 2 inputs and 2 outputs");
  EXPECT_NE(refused(rows, pointers, nullptr).find("the workspace is null"), std::string::npos);
}

TEST(Resolve, WithoutWorkspaceOnlySizes) {
  Call call(100);
  call.workspace = nullptr;
  call.inputs[0].data = nullptr;
  ResolvedLaunch launch = call.resolve();
  EXPECT_EQ(launch.workspaceBytes, 256u + 13 * 512);
  EXPECT_TRUE(launch.kernels[0].arguments.empty());
  Resolver resolver(rowPlan());
  EXPECT_EQ(resolver.workspaceBytes(call.inputs, {}, 132), launch.workspaceBytes);
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [&] {
                       Call full(100);
                       resolver.resolve(full.inputs, full.outputs, 132, nullptr, launch);
                     }),
             "the workspace is null; it must be 6912 bytes of device memory, aligned to 256");
}

TEST(Resolve, Counts) {
  Call call(4);
  call.inputs.pop_back();
  EXPECT_HAS(call.error(), "1 inputs given, 'norm' has 2 (x, gamma); pass them in this order");
  call = Call(4);
  call.outputs.push_back(call.outputs[0]);
  EXPECT_HAS(call.error(), "3 outputs given, 'norm' has 2 (y, dgamma)");
}

TEST(Resolve, ShapesAndSymbols) {
  Call call(4);
  call.inputs[0].sizes = {2, 2, 128};
  EXPECT_HAS(call.error(),
             "input 'x': 3 dimensions given, the kernel was compiled for 2 [s0, 128]");
  call = Call(4);
  call.inputs[0].sizes[1] = 130;
  EXPECT_HAS(call.error(), "input 'x': dimension 1 is 130, the kernel was compiled for 128");
  call = Call(4);
  call.outputs[0].sizes[0] = 5;
  EXPECT_HAS(call.error(), "output 'y': dimension 0 is 5, but dimension 0 of input 'x' is 4; both "
                           "are s0 and must be equal");
  call = Call(-4);
  EXPECT_HAS(call.error(), "input 'x': dimension 0 is -4; allowed are 0 or more");
}

TEST(Resolve, Strides) {
  Call call(4);
  call.inputs[0].strides = {128, 2};
  EXPECT_HAS(call.error(),
             "input 'x': stride of dimension 1 is 2 elements, the kernel was compiled "
             "for 1; copy the tensor or compile with that stride given at run time");
  call.inputs[0].strides = {128};
  EXPECT_HAS(call.error(), "input 'x': 1 strides given for 2 dimensions");
  call.inputs[0].strides = {-128, 1};
  EXPECT_HAS(call.error(), "stride of dimension 0 is -128 elements; allowed are 0 or more");
  call.inputs[0].strides = {0, 1}; // one row read again and again
  EXPECT_EQ(call.resolve().kernels[0].arguments[1], 0u);
  call.outputs[0].strides = {256, 1}; // y has no strides in the plan: contiguous
  EXPECT_HAS(call.error(), "output 'y': stride of dimension 0 is 256 elements");
  LaunchPlan plan = rowPlan();
  plan.outputs[0].strides = {-1, 1};
  call.outputs[0].strides = {0, 1};
  EXPECT_HAS(call.error(plan), "output 'y': dimension 0 has 4 elements and stride 0");
}

TEST(Resolve, StridesKeepTheirPromise) {
  LaunchPlan plan = rowPlan();
  plan.inputs[0].strides = {-1, 1};
  plan.inputs[0].strideMultiple = 8;
  Call call(4);
  call.inputs[0].strides = {136, 1};
  EXPECT_NO_THROW(call.resolve(plan));
  for (const std::int64_t wrong : {132, 0}) {
    call.inputs[0].strides = {wrong, 1};
    EXPECT_HAS(call.error(plan),
               fmt::format("input 'x': stride of dimension 0 is {} elements, the kernel was "
                           "compiled for multiples of 8 above 0; copy the tensor or compile "
                           "without that promise (multiple = 8)",
                           wrong));
  }
}

TEST(Resolve, StridesOfSizeOneAreIgnored) {
  Call call(1);
  call.inputs[0].strides = {-7, 1};
  call.outputs[0].strides = {999, 1};
  EXPECT_EQ(call.resolve().kernels[0].blocks, 1);
}

TEST(Resolve, Pointers) {
  Call call(4);
  call.inputs[0].data = pointer(0x1002);
  EXPECT_EQ(call.error(), "input 'x': pointer is aligned to 2 bytes, the kernel was compiled for "
                          "16; copy the tensor or compile with a smaller alignment");
  call.inputs[0].data = nullptr;
  EXPECT_HAS(call.error(), "input 'x': the pointer is null and the tensor has 512 elements");
  call = Call(4);
  call.workspace = pointer(0x10010);
  EXPECT_HAS(call.error(), "the workspace is a pointer aligned to 16 bytes");
}

TEST(Resolve, TooLarge) {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].grid = KernelLaunch::Grid::oneShot;
  plan.kernels[0].rowsPerBlock = 1;
  plan.workspaces[1].elements = 1;
  EXPECT_EQ(Call(2147483647).resolve(plan).kernels[0].blocks, 2147483647);
  EXPECT_HAS(Call(2147483648).error(plan),
             "kernel 'norm_main': 2147483648 rows at 1 rows per block need 2147483648 blocks, a "
             "grid may have 2147483647; take a schedule with more rows per block");
  EXPECT_HAS(Call(2147483649).error(plan),
             "kernel 'norm_main': 2147483649 rows, a kernel counts up to 2147483648; split the "
             "batch");
  EXPECT_HAS(Call(std::int64_t(1) << 60).error(plan), "does not fit in 64 bits");
  plan = rowPlan();
  plan.workspaces[1].elements = std::int64_t(1) << 60;
  EXPECT_HAS(Call(100).error(plan), "does not fit in 64 bits");
}

/// So that blocks that come to several tiles find all their rows shifted alike.
TEST(Resolve, BlocksOfResidentGridsAreAMultiple) {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].blocksMultiple = 8;
  const auto blocks = [&](std::int64_t tiles, int multiprocessors) {
    return Call(8 * tiles).resolve(plan, multiprocessors).kernels[0].blocks; // 8 rows a block
  };
  const std::int64_t each = plan.kernels[0].blocks; // of a multiprocessor
  EXPECT_EQ(blocks(100000, 132), 132 * each / 8 * 8);
  EXPECT_EQ(blocks(100000, 1), 8) << "or they would come to tiles that are shifted otherwise";
  EXPECT_EQ(blocks(5, 132), 5) << "each has one";
}

/// Each part begins with a block of its own, and a part without rows has none.
TEST(Resolve, BlocksOfParts) {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].grid = KernelLaunch::Grid::oneShot;
  plan.kernels[0].further = {{{{100, -1}}}, {{{0, -1}}}, {}}; // 100 rows, none, one
  for (int parts : {0, 1, 2, 3, 4})
    plan.kernels[1].arguments.push_back({KernelArgument::Kind::blocks, "", 0, {}, 0, parts});
  const ResolvedLaunch launch = Call(9).resolve(plan); // 8 rows a block
  EXPECT_EQ(launch.kernels[0].blocks, 2 + 13 + 0 + 1);
  const auto& arguments = launch.kernels[1].arguments;
  EXPECT_EQ(std::vector(arguments.end() - 5, arguments.end()),
            (std::vector<std::uint64_t>{16, 2, 15, 15, 16}));
  plan.kernels[0].rowsPerBlock = 1;
  EXPECT_HAS(Call(2147483600).error(plan),
             "kernel 'norm_main': 2147483701 rows at 1 rows per block need 2147483701 blocks");
}

TEST(Resolve, SymbolsThatOnlyOutputsHave) {
  LaunchPlan plan = rowPlan();
  plan.inputs[0].shape[0] = {4, -1};
  Call call(4);
  EXPECT_EQ(call.resolve(plan).kernels[0].blocks, 1);
  EXPECT_HAS(
      errorOf(ErrorKind::input, [&] { Resolver(plan).workspaceBytes(call.inputs, {}, 132); }),
      "the run-time size s0 is no dimension of any tensor given");
}

TEST(Resolve, ContradictoryPlanInMemory) {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].rowsPerBlock = 0;
  EXPECT_HAS(Call(4).error(plan), "plan.kernels[0].rowsPerBlock is 0");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Call(4).resolve(rowPlan(), 0); }),
             "the device has 0 multiprocessors");
}

} // namespace
