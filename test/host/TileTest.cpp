// Tensor maps, clusters, roles and grids of tiles on the host target: the kernel of TileKernel.h is
// right, and each step that it could leave out, and might get away with on a GPU, is reported.
#include "codegen/backend/CheckLaunchPlan.h"
#include "codegen/backend/Cubin.h"
#include "test/backend/DeviceText.h"
#include "test/backend/TileCopies.h"
#include "test/backend/TileKernel.h"
#include "test/host/Harness.h"

#include <gmock/gmock.h>

namespace kiln::test {
namespace {

std::vector<std::uint16_t> run(TileProblem& problem, const std::string& text,
                               const LaunchPlan& plan = tilePlan(),
                               const HostRunOptions& options = {}) {
  const std::vector<Buffer> inputs = problem.inputs(problem.x.data(), problem.w.data());
  HostProgram(plan, text).run(inputs, problem.outputs(problem.y.data()), options);
  return problem.y;
}

TEST(Tiles, EachElementOnce) {
  // Rows that end inside a tile, and in its first piece; batches that the two splits share
  // unevenly.
  for (auto [batches, rows] : {std::pair(7, 150), {1, 1}, {2, 128}, {5, 64}}) {
    TileProblem problem(batches, rows);
    EXPECT_EQ(run(problem, tileKernelText), problem.expected()) << batches << " x " << rows;
  }
}

TEST(Tiles, OrderOfBlocksChangesNothing) {
  for (BlockOrder order : {BlockOrder::reversed, BlockOrder::shuffled}) {
    TileProblem problem(3, 300);
    EXPECT_EQ(run(problem, tileKernelText, tilePlan(), {.order = order, .seed = 5}),
              problem.expected());
  }
}

TEST(Tiles, NothingToLaunch) {
  TileProblem problem(0, 0);
  EXPECT_TRUE(run(problem, tileKernelText).empty());
}

class TileOmissions : public testing::TestWithParam<Omission> {};

TEST_P(TileOmissions, IsReported) {
  const std::string text = replaced(tileKernelText, GetParam().step, GetParam().instead);
  TileProblem problem(7, 150);
  EXPECT_THAT(errorOf(ErrorKind::verification, [&] { run(problem, text); }),
              testing::HasSubstr(GetParam().message));
}

const Omission omissions[] = {
    {"WaitForTile", "mbarrier_wait(at.full + slot, phase);", "",
     "reads 16 bytes at shared memory + 0 that a bulk copy writes; no barrier lies between"},
    {"WaitForFreeStage", "mbarrier_wait(at.empty + slot, phase ^ 1);", "", "a bulk copy"},
    {"ArrivalAtFreeStage", "mbarrier_arrive(at.empty + slot);", ";", "diverged"},
    {"WaitForWeights", "mbarrier_wait(at.weights_full, piece);", "",
     "reads 16 bytes at shared memory + 24496; byte 24496 was never written"},
    {"WaitForFreeWeights", "mbarrier_wait_for_cluster(at.weights_empty, piece - 1);", "",
     "diverged"},
    {"ArrivalInTheOtherBlock", "thread % 32 < 2", "thread % 32 == cluster_rank()", "diverged"},
    {"ExpectedBytes", "mbarrier_arrive_expecting(at.full + slot, tile_bytes);",
     "mbarrier_arrive_expecting(at.full + slot, tile_bytes / 2);", "diverged"},
    {"WaitForReadStaging", "wait_for_tile_reads_but<0>();", ";",
     "at shared memory + 24576 that a bulk copy reads; no wait for it lies between"},
    {"BarrierBeforeStaging", "group_barrier(1, consumers);  // free", "",
     "writes 16 bytes at shared memory + 25600 that thread 384 reads; no barrier lies between"},
    {"FenceBeforeStore", "bulk_copy_fence();", "", "no bulk_copy_fence lies between"},
    {"FenceOfOneThread", "bulk_copy_fence();", "if (thread == 0) bulk_copy_fence();",
     "no bulk_copy_fence lies between"},
    {"BarrierBeforeStore", "group_barrier(1, consumers);  // written", "", "shared memory + "},
    {"EndOfStores", "end_tile_stores();", "",
     "that a bulk copy reads; no wait for it lies between"},
    {"WaitForStores", "wait_for_tile_stores_but<0>();", ";", "ends while stores of tiles"},
    {"FenceOfBarriers", "mbarrier_fence();", "", "no mbarrier_fence made known to them"},
    {"MeetingAtTheStart", "cluster_wait();  // ready", "",
     "reads 8 bytes at shared memory + 32800; byte 32800 was never written"},
    {"MeetingAtTheEnd", "cluster_wait();  // done", "", "may still reach its shared memory"},
    {"RegistersOfProducers", "give_up_registers<24>();", "",
     "ends with the registers it began with, its role in the launch plan has 24"},
    {"RegistersOfThePlan", "take_registers<232>();", "take_registers<224>();",
     "ends with 224 registers, its role in the launch plan has 232"},
};

INSTANTIATE_TEST_SUITE_P(Steps, TileOmissions, testing::ValuesIn(omissions),
                         [](const auto& info) { return info.param.name; });

TEST(Tiles, MapsThatTheKernelMisuses) {
  const auto error = [](const std::string& from, const std::string& to) {
    const std::string text = replaced(tileKernelText, from, to);
    TileProblem problem(3, 64);
    return errorOf(ErrorKind::verification, [&] { run(problem, text); });
  };
  EXPECT_THAT(
      error("slot, 0, row, head, batch)", "slot, 0, row, head)"),
      testing::HasSubstr("copies a tile at 3 coordinates, its tensor map has 4 dimensions"));
  EXPECT_THAT(error("load_tile(at.x + slot", "load_tile(at.x + 16 + slot"),
              testing::HasSubstr("shared memory + 16, which is not aligned to 128"));
  EXPECT_THAT(error("at.weights_full, 3, 0", "at.weights_full, 7, 0"),
              testing::HasSubstr("reaches block 2 of its cluster, which has 2, from 0"));
}

void copyOnHost(const TileCopy& copy) {
  SCOPED_TRACE(copy.text());
  std::vector<unsigned char> x = copy.input(), y(x.size(), 0xff), image, expected;
  const std::size_t bytes = static_cast<std::size_t>(copy.boxBytes());
  std::vector<unsigned char> images(bytes * copy.blocks, 0xff);
  const Buffer input{x.data(), copy.sizes(), {}};
  const Buffer outputs[] = {{y.data(), copy.sizes(), {}},
                            {images.data(), {static_cast<std::int64_t>(images.size() / 4)}, {}}};
  HostProgram(copy.plan(), copy.text()).run(std::span(&input, 1), outputs);
  copy.expect(x, image, expected);
  EXPECT_EQ(y, expected);
  for (int block = 0; block < copy.blocks; ++block)
    EXPECT_TRUE(std::equal(image.begin(), image.end(), images.begin() + block * bytes)) << block;
}

TEST(TileCopies, OfEachRankTypeAndSwizzle) {
  for (const TileCopy& copy : tileCopies)
    copyOnHost(copy);
}

TEST(TileCopies, StoresThatBeginBeforeTheTensorAreRefused) {
  EXPECT_THAT(errorOf(ErrorKind::verification, [] { copyOnHost(storedBefore); }),
              testing::HasSubstr("stores a tile that begins at -1 of dimension 1"));
}

TEST(Tiles, AssembleForSm90a) {
  if (const std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  for (const TileCopy& copy : tileCopies)
    EXPECT_EQ(readCubin(compileCuda(deviceJob(copy.text())).cubin).kernels.size(), 1u);
  const CudaResult result = compileCuda(deviceJob(tileKernelText));
  const CubinKernel kernel = readCubin(result.cubin).kernel("scale_tiles");
  const KernelLaunch launch = tilePlan().kernels[0];
  EXPECT_EQ(kernel.parameters, (std::vector<int>{128, 128, 128, 8}));
  checkParameters(launch, kernel);
  EXPECT_EQ(kernel.registers, 128);
  checkRoles(launch, kernel.registers);
  EXPECT_EQ(kernel.sharedBytes, 0); // so that dynamic shared memory begins aligned
  EXPECT_EQ(spillsOf(result.log, "scale_tiles").stores, 0);
  EXPECT_EQ(result.log.find("setmaxnreg"), std::string::npos) << result.log; // not ignored
}

} // namespace
} // namespace kiln::test
