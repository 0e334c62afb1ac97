// Blocks that take turns to add to one place: what they may do, and the message of each mistake
// that the host target finds. Those of attention: numerics/turns_test.cpp.
#include "test/host/Harness.h"

#include <gmock/gmock.h>

namespace kiln::test {
namespace {

/// Each block adds its number to 64 sums, and the first stores it.
constexpr const char* text = R"(#include "tensor_copy.cuh"
using namespace kiln;

KILN_KERNEL(64, 1) add(i32* turns, float* sums) {
  float* own = reinterpret_cast<float*>(shared_memory());
  store_shared(own + thread_index(), float(block_index() + 1));
  bulk_copy_fence();
  block_barrier();
  if (thread_index() == 0) {
    if (block_index() == 0) {
      bulk_copy_to_global(sums, own, 256);
    } else {
      wait_for_turn(turns, int(block_index()));
      bulk_add_to_global(sums, own, 256);
    }
    end_tile_stores();
    wait_for_tile_stores_but<0>();
    pass_turn(turns, int(block_index()) + 1);
  }
}
)";

struct Turns {
  std::vector<std::int32_t> turns{0};
  std::vector<float> sums = std::vector<float>(64, -1);

  void run(const std::string& kernels, BlockOrder order = BlockOrder::forward) {
    runKernel(*HostLibrary::compile(kernels),
              {.name = "add",
               .blocks = 4,
               .threads = 64,
               .sharedBytes = 256,
               .arguments = {pointer(turns), pointer(sums)},
               .regions = {region("turns", turns, MemoryRegion::Role::workspace),
                           region("sums", sums, MemoryRegion::Role::workspace)}},
              {.order = order});
  }
};

TEST(Turns, BlocksAddOneAfterTheOther) {
  Turns turns;
  turns.run(text);
  EXPECT_THAT(turns.sums, testing::Each(10));
  EXPECT_EQ(turns.turns[0], 4);
}

TEST(Turns, BlocksMayNotWaitForLaterOnes) {
  EXPECT_THAT(
      errorOf(ErrorKind::verification, [] { Turns().run(text, BlockOrder::reversed); }),
      testing::HasSubstr("block 3 thread 0 waits for turn 3 at turns + 0, which is at 0; blocks "
                         "begin in the order of the grid, so that it may wait for earlier ones "
                         "only"));
}

const Omission mistakes[] = {
    {"wait_for_turn", "wait_for_turn(turns, int(block_index()));", "",
     "block 1 thread 0 reads 16 bytes at sums + 0, which block 0 writes in the same kernel"},
    {"pass_turn", "pass_turn(turns, int(block_index()) + 1);", "",
     "block 1 thread 0 waits for turn 1 at turns + 0, which is at 0"},
    {"another_turn", "pass_turn(turns, int(block_index()) + 1);", "pass_turn(turns, 2);",
     "block 0 thread 0 passes turn 1 on at turns + 0, which is at 0"},
    {"wait_for_stores", "wait_for_tile_stores_but<0>();", "wait_for_tile_reads_but<0>();",
     "block 0 thread 0 passes its turn on before what it stored is written"},
    {"fence", "bulk_copy_fence();", "", "block 0 thread 0"},
    {"elsewhere", "wait_for_turn(turns, int(block_index()));", "wait_for_turn(turns + 1, 1);",
     "turns + 4"},
    {"part_of_a_piece", "bulk_copy_to_global(sums, own, 256);",
     "bulk_copy_to_global(sums, own, 8);",
     "block 0 thread 0 stores 8 bytes from shared memory + 0; allowed are multiples of 16 of both"},
};
class TurnsMistakes : public testing::TestWithParam<Omission> {};

TEST_P(TurnsMistakes, AreReported) {
  const Omission& left = GetParam();
  EXPECT_THAT(errorOf(ErrorKind::verification,
                      [&] { Turns().run(replaced(text, left.step, left.instead)); }),
              testing::HasSubstr(left.message));
}
INSTANTIATE_TEST_SUITE_P(Steps, TurnsMistakes, testing::ValuesIn(mistakes),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace kiln::test
