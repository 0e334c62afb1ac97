// The last block of a kernel that comes somewhere: what it may read then, and the message of each
// mistake that the host target finds in how blocks count themselves.
#include "test/host/Harness.h"

#include <gmock/gmock.h>

namespace kiln::test {
namespace {

/// Each block writes a number; the last to be counted adds up all of them.
constexpr const char* text = R"(#include "segment.cuh"
using namespace kiln;

KILN_KERNEL(64, 1) last(i32* counter, float* parts, float* sum) {
  if (thread_index() == 0)
    store_global(parts + block_index(), float(block_index() + 1));
  if (is_last_block(counter, shared_memory())) {
    const float total = sum_of_partials<64>(parts, block_count(), shared_memory());
    store_scalar(sum, total);
  }
}
KILN_KERNEL(64, 1) reads_early(i32* counter, float* parts, float* sum) {
  if (thread_index() == 0)
    store_global(parts + block_index(), 1.0f);
  load_global<float>(parts);
  is_last_block(counter, shared_memory());
}
KILN_KERNEL(64, 1) any_block(i32* counter, float* parts, float* sum) {
  if (thread_index() == 0)
    store_global(parts + block_index(), 1.0f);
  is_last_block(counter, shared_memory());
  sum_of_partials<64>(parts, block_count(), shared_memory());
  store_scalar(sum, 1.0f);
}
KILN_KERNEL(64, 1) twice(i32* counter, float* parts, float* sum) {
  is_last_block(counter, shared_memory());
  is_last_block(counter, shared_memory());
}
KILN_KERNEL(64, 1) elsewhere(i32* counter, float* parts, float* sum) {
  is_last_block(reinterpret_cast<i32*>(parts), shared_memory());
}
KILN_KERNEL(64, 1) miscounts(i32* counter, float* parts, float* sum) {
  if (thread_index() == 0)
    count_block(reinterpret_cast<u32*>(counter), 7);
}
KILN_KERNEL(64, 1) reads_counter(i32* counter, float* parts, float* sum) {
  load_global<i32>(counter);
}
KILN_KERNEL(64, 1) stores_counter(i32* counter, float* parts, float* sum) {
  if (thread_index() == 0)
    store_global(counter, 0);
}
)";

struct Counted {
  std::vector<std::int32_t> counter{0};
  std::vector<float> parts = std::vector<float>(8), sum{-1};

  void run(const char* kernel, BlockOrder order = BlockOrder::forward) {
    runKernel(
        *HostLibrary::compile(text),
        {.name = kernel,
         .blocks = 5,
         .threads = 64,
         .sharedBytes = 64,
         .arguments = {pointer(counter), pointer(parts), pointer(sum)},
         .regions = {region("counter", counter, MemoryRegion::Role::counter),
                     region("parts", parts, MemoryRegion::Role::workspace), output("sum", sum)}},
        {.order = order, .seed = 4});
  }
};

TEST(Count, TheLastBlockSeesAllWhicheverItIs) {
  for (BlockOrder order : {BlockOrder::forward, BlockOrder::reversed, BlockOrder::shuffled}) {
    Counted counted;
    counted.run("last", order);
    EXPECT_EQ(counted.sum[0], 15);
    EXPECT_EQ(counted.counter[0], 0);
  }
}

TEST(Count, MistakesAreReported) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"reads_early",
       "block 1 thread 0 reads 4 bytes at parts + 0, which block 0 writes in the same kernel"},
      {"any_block", "block 0 thread 0 writes 4 bytes at sum + 0 after it was counted as block 1 of "
                    "5; only the last may"},
      {"twice", "block 0 thread 0 counts itself a second time"},
      {"elsewhere", "where no counter is"},
      {"miscounts", "block 0 thread 0 counts itself as one of 7 blocks; the grid has 5"},
      {"reads_counter", "block 0 thread 0 reads 4 bytes at counter + 0, 'counter' is a counter"},
      {"stores_counter", "block 0 thread 0 writes 4 bytes at counter + 0, 'counter' is a counter"}};
  for (const auto& [kernel, message] : mistakes)
    EXPECT_THAT(errorOf(ErrorKind::verification, [kernel = kernel] { Counted().run(kernel); }),
                testing::HasSubstr(message));
}

TEST(Count, ACounterThatIsNotZeroIsReported) {
  Counted counted;
  counted.counter[0] = 5;
  EXPECT_THAT(errorOf(ErrorKind::verification, [&] { counted.run("last"); }),
              testing::HasSubstr("finds 5 blocks of 5 counted; a counter is 0 between launches"));
}

} // namespace
} // namespace kiln::test
