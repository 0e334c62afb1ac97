// Limits of the targets and the occupancy rules, against figures of NVIDIA's calculator.
#include "codegen/backend/Target.h"
#include "test/backend/Helpers.h"

using namespace kiln;
using namespace kiln::test;

namespace {

TEST(Target, NamesAndAliases) {
  EXPECT_EQ(findTarget("sm_90a").arch, "sm_90a");
  EXPECT_EQ(findTarget("sm_90").arch, "sm_90a");
  EXPECT_EQ(findTarget("compute_100").arch, "sm_100a");
  EXPECT_EQ(findTarget("sm_120a").arch, "sm_120");
  EXPECT_EQ(findTarget("86").arch, "sm_86");
  EXPECT_EQ(targetOfCapability(9, 0).arch, "sm_90a");
  for (const char* name : {"", "sm_", "sm_70", "sm_900", "a", "host"})
    EXPECT_HAS(errorOf(ErrorKind::input, [&] { findTarget(name); }),
               "is no known target; known are sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120");
}

TEST(Target, Capabilities) {
  const auto of = [](const char* arch) { return findTarget(arch).has; };
  for (const Target& target : allTargets()) {
    EXPECT_TRUE(target.has.asyncCopies && target.has.matrixLoads && target.has.warpMatrix);
    EXPECT_EQ(target.has.clusters, target.maxCluster > 1) << target.arch;
    EXPECT_EQ(target.has.bulkCopies, target.has.programmaticLaunch) << target.arch;
    EXPECT_TRUE(target.has.bulkCopies || !target.has.registersByRole) << target.arch;
  }
  EXPECT_FALSE(of("sm_89").bulkCopies);
  EXPECT_TRUE(of("sm_90a").warpgroupMatrix && of("sm_90a").registersByRole);
  EXPECT_FALSE(of("sm_100a").warpgroupMatrix);
  EXPECT_TRUE(of("sm_100a").registersByRole);
  EXPECT_TRUE(of("sm_120").bulkCopies && !of("sm_120").registersByRole);
}

/// The data sheets' figures, dense, within a percent or two.
TEST(Target, TensorCores) {
  const auto rate = [](const char* arch, MatrixType type) {
    return matrixTflops(findTarget(arch), type);
  };
  EXPECT_NEAR(rate("sm_80", MatrixType::f16), 312, 1);
  EXPECT_NEAR(rate("sm_80", MatrixType::tf32), 156, 1);
  EXPECT_EQ(rate("sm_80", MatrixType::fp8), 0);
  EXPECT_NEAR(rate("sm_86", MatrixType::f16), 154.8, 1);
  EXPECT_NEAR(rate("sm_89", MatrixType::f16), 362, 6);
  EXPECT_NEAR(rate("sm_90a", MatrixType::f16), 989, 5);
  EXPECT_NEAR(rate("sm_90a", MatrixType::fp8), 1979, 10);
  EXPECT_NEAR(rate("sm_100a", MatrixType::f16), 2250, 10);
  EXPECT_NEAR(rate("sm_120", MatrixType::f16), 503.8, 2);
}

TEST(Target, SharedMemory) {
  EXPECT_EQ(findTarget("sm_80").sharedPerBlock, 166912);
  EXPECT_EQ(findTarget("sm_86").sharedPerBlock, 101376);
  EXPECT_EQ(findTarget("sm_89").sharedPerBlock, 101376);
  EXPECT_EQ(findTarget("sm_90a").sharedPerBlock, 232448);
  EXPECT_EQ(findTarget("sm_100a").sharedPerBlock, 232448);
  EXPECT_EQ(findTarget("sm_120").sharedPerBlock, 101376);
  for (const Target& target : allTargets())
    EXPECT_EQ(target.sharedPerBlock + target.sharedReserved, target.sharedPerSM) << target.arch;
}

struct Case {
  const char* arch;
  int threads, registers;
  std::int64_t shared;
  int blocks;
};

TEST(Target, ResidentBlocks) {
  const Case cases[] = {
      {"sm_90a", 256, 32, 0, 8},  // by threads: 2048 / 256
      {"sm_90a", 256, 33, 0, 6},  // 40 registers a thread: 1280 a warp, 51 warps, 48 usable
      {"sm_90a", 256, 64, 0, 4},  // by registers
      {"sm_90a", 256, 65, 0, 3},  // 72 registers: 28 warps
      {"sm_90a", 128, 168, 0, 3}, // 5376 a warp: 3 of each quarter, 12 warps
      {"sm_90a", 384, 168, 0, 1}, // the same 12 warps make one block
      {"sm_90a", 32, 16, 0, 32},  // by blocks
      {"sm_86", 32, 16, 0, 16},       {"sm_89", 32, 16, 0, 24},
      {"sm_86", 1024, 32, 0, 1},   // 1536 threads
      {"sm_90a", 1024, 255, 0, 0}, // 65536 / 8192 = 8 warps, 32 needed
      {"sm_90a", 256, 255, 0, 1},     {"sm_90a", 1000, 64, 0, 1},     // counts as 32 warps
      {"sm_90a", 128, 32, 0, 16},     {"sm_90a", 128, 32, 232448, 1}, // all of it
      {"sm_90a", 128, 32, 232449, 0},                                 // one byte too many
      {"sm_90a", 128, 32, 115712, 2}, // 2 * (115712 + 1024) = 233472
      {"sm_90a", 128, 32, 115713, 1}, // granularity 128
      {"sm_80", 128, 32, 166912, 1},  {"sm_120", 128, 32, 50176, 2},
  };
  for (const Case& c : cases)
    EXPECT_EQ(residentBlocks(findTarget(c.arch), c.threads, c.registers, c.shared), c.blocks)
        << c.arch << " " << c.threads << " " << c.registers << " " << c.shared;
}

TEST(Target, Nonsense) {
  const Target& target = findTarget("sm_90a");
  EXPECT_EQ(residentBlocks(target, 1025, 32, 0), 0);
  EXPECT_EQ(residentBlocks(target, 128, 256, 0), 0);
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { residentBlocks(target, 0, 32, 0); }),
             "a block of 0 threads");
}

} // namespace
