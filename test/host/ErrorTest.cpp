// Every mistake of a kernel that the host target finds, with the message that it makes.
#include "test/host/Harness.h"

#include <fmt/format.h>

namespace kiln::test {
namespace {

constexpr const char* copyText = R"(#include "row.cuh"
using namespace kiln;

KILN_KERNEL(32, 1) copy(const float* x, float* y, i64 shift) {
  const i64 i = block_index() * 128 + thread_index() * 4;
  store_global(y + i, load_global<Vec<float, 4>>(x + i + shift));
}
KILN_KERNEL(32, 1) store_to_input(const float* x, float* y, i64) {
  store_global(const_cast<float*>(x) + thread_index(), 1.0f);
}
KILN_KERNEL(32, 1) misaligned_load(const float* x, float* y, i64) {
  load_global<Vec<float, 4>>(x + 1);
}
KILN_KERNEL(32, 1) misaligned_store(const float* x, float* y, i64) {
  store_global(y + 2, Vec<float, 4>{});
}
KILN_KERNEL(32, 1) null_pointer(const float* x, float* y, i64) { load_global<float>(nullptr); }
KILN_KERNEL(32, 1) same_place(const float* x, float* y, i64) {
  if (thread_index() == 0)
    store_global(y + 3, 1.0f);
}
KILN_KERNEL(32, 1) across_blocks(const float* x, float* y, i64) {
  if (thread_index() == 0)
    store_global(y + block_index(), 1.0f);
  load_global<float>(y);
}

KILN_KERNEL(64, 1) unset_shared(const float* x, float* y, i64) {
  if (thread_index() < 32)
    store_shared(shared_memory() + thread_index() * 4, 1.0f);
  block_barrier();
  load_shared<float>(shared_memory() + thread_index() * 4);
}
KILN_KERNEL(64, 1) unset_in_second_block(const float* x, float* y, i64) {
  if (block_index() == 0)
    store_shared(shared_memory() + thread_index() * 4, 1.0f);
  load_shared<float>(shared_memory() + thread_index() * 4);
}
KILN_KERNEL(128, 1) past_shared(const float* x, float* y, i64) {
  store_shared(shared_memory() + thread_index() * 4, 1.0f);
}
KILN_KERNEL(64, 1) misaligned_shared(const float* x, float* y, i64) {
  store_shared(shared_memory() + 8, Vec<float, 4>{});
}
KILN_KERNEL(64, 1) read_race(const float* x, float* y, i64) {
  if (thread_index() == 3)
    store_shared(shared_memory(), 1.0f);
  if (thread_index() == 40)
    load_shared<float>(shared_memory());
}
KILN_KERNEL(64, 1) write_race(const float* x, float* y, i64) {
  if (thread_index() == 3 || thread_index() == 5)
    store_shared(shared_memory() + 4, 1.0f);
}
KILN_KERNEL(64, 1) overwrite_race(const float* x, float* y, i64) {
  if (thread_index() == 0)
    store_shared(shared_memory(), 1.0f);
  block_barrier();
  load_shared<float>(shared_memory());
  shuffle_xor(1.0f, 1);  // orders the lanes of a warp, but not the warps
  if (thread_index() == 32)
    store_shared(shared_memory(), 2.0f);
}

KILN_KERNEL(64, 1) some_exit(const float* x, float* y, i64) {
  if (thread_index() >= 48)
    return;
  block_barrier();
}
KILN_KERNEL(64, 1) half_a_shuffle(const float* x, float* y, i64) {
  if (thread_index() % 32 < 16)
    shuffle_xor(1.0f, 1);
}
KILN_KERNEL(64, 1) shuffle_or_barrier(const float* x, float* y, i64) {
  if (thread_index() == 7)
    block_barrier();
  shuffle_xor(1.0f, 1);
  block_barrier();
}
KILN_KERNEL(128, 1) lonely_group(const float* x, float* y, i64) {
  if (thread_index() < 32)
    group_barrier(2, 64);
}
KILN_KERNEL(128, 1) unequal_groups(const float* x, float* y, i64) {
  group_barrier(1, thread_index() < 32 ? 64 : 96);
}
KILN_KERNEL(128, 1) split_warps(const float* x, float* y, i64) {
  if (thread_index() % 2 == 0)
    group_barrier(1, 64);
}
KILN_KERNEL(64, 1) no_such_barrier(const float* x, float* y, i64) { group_barrier(16, 64); }
KILN_KERNEL(64, 1) odd_group(const float* x, float* y, i64) { group_barrier(1, 40); }
KILN_KERNEL(64, 1) far_shuffle(const float* x, float* y, i64) { shuffle_xor(1.0f, 32); }
)";

struct Mistake {
  const char* kernel;
  int threads;
  std::int64_t blocks;
  std::int64_t shift;
  std::string message;
};

class Errors : public testing::TestWithParam<Mistake> {};

/// The kernels get x (256 floats), y (256 floats) and 256 bytes of shared memory. Between the two
/// lies enough that what is beside one is not beside the other.
void run(const Mistake& mistake) {
  std::vector<float> memory(4 * 256);
  auto part = [&](const char* name, int index, bool written) {
    MemoryRegion region = written ? output(name, memory) : input(name, memory);
    region.data = memory.data() + index * std::ptrdiff_t{256};
    region.bytes = 256 * sizeof(float);
    return region;
  };
  auto address = [&](int index) { return pointer(memory) + index * 256 * sizeof(float); };
  runKernel(*HostLibrary::compile(copyText),
            {.name = mistake.kernel,
             .blocks = mistake.blocks,
             .threads = mistake.threads,
             .sharedBytes = 256,
             .arguments = {address(1), address(3), static_cast<std::uint64_t>(mistake.shift)},
             .regions = {part("x", 1, false), part("y", 3, true)}});
}

TEST_P(Errors, AreReported) {
  const Mistake& mistake = GetParam();
  std::string error = errorOf(ErrorKind::verification, [&] { run(mistake); });
  EXPECT_EQ(error, fmt::format("{}: {}", mistake.kernel, mistake.message));
  // What the failed block left behind must not disturb the next one.
  run({"copy", 32, 2, 0, ""});
}

const Mistake mistakes[] = {
    {"copy", 32, 3, 0, "block 2 thread 0 reads 16 bytes at x + 1024, 'x' has 1024 bytes"},
    {"copy", 32, 1, -4, "block 0 thread 0 reads 16 bytes at x - 16, 'x' has 1024 bytes"},
    {"store_to_input", 32, 1, 0, "block 0 thread 0 writes 4 bytes at x + 0, 'x' is an input"},
    {"misaligned_load", 32, 1, 0,
     "block 0 thread 0 reads 16 bytes at x + 4, which is not aligned to 16"},
    {"misaligned_store", 32, 1, 0,
     "block 0 thread 0 writes 16 bytes at y + 8, which is not aligned to 16"},
    {"null_pointer", 32, 1, 0,
     "block 0 thread 0 reads 4 bytes at address 0x0, which is far from every buffer"},
    {"same_place", 32, 2, 0,
     "block 1 thread 0 writes 4 bytes at y + 12, which also block 0 writes in the same kernel"},
    {"across_blocks", 32, 2, 0,
     "block 1 thread 0 reads 4 bytes at y + 0, which block 0 writes in the same kernel"},
    {"unset_shared", 64, 1, 0,
     "block 0 thread 32 reads 4 bytes at shared memory + 128; byte 128 was never written by this "
     "block"},
    {"unset_in_second_block", 64, 2, 0,
     "block 1 thread 0 reads 4 bytes at shared memory + 0; byte 0 was never written by this block"},
    {"past_shared", 128, 1, 0,
     "block 0 thread 64 writes 4 bytes at shared memory + 256, the block has 256 bytes"},
    {"misaligned_shared", 64, 1, 0,
     "block 0 thread 0 writes 16 bytes at shared memory + 8, which is not aligned to 16"},
    {"read_race", 64, 1, 0,
     "block 0 thread 40 reads 4 bytes at shared memory + 0 that thread 3 writes; no barrier lies "
     "between"},
    {"write_race", 64, 1, 0,
     "block 0 thread 5 writes 4 bytes at shared memory + 4 that thread 3 also writes; no barrier "
     "lies between"},
    {"overwrite_race", 64, 1, 0,
     "block 0 thread 32 writes 4 bytes at shared memory + 0 that thread 31 reads; no barrier lies "
     "between"},
    {"some_exit", 64, 2, 0,
     "block 0 diverged: threads 0-47 wait at block_barrier, threads 48-63 exited"},
    {"half_a_shuffle", 64, 1, 0,
     "block 0 diverged: threads 0-15 wait in shuffle_xor, threads 16-31 exited, threads 32-47 wait "
     "in shuffle_xor, threads 48-63 exited"},
    {"shuffle_or_barrier", 64, 1, 0,
     "block 0 diverged: threads 0-6 wait in shuffle_xor, thread 7 waits at block_barrier, threads "
     "8-31 wait in shuffle_xor, threads 32-63 wait at block_barrier"},
    {"lonely_group", 128, 1, 0,
     "block 0 diverged: threads 0-31 wait at group_barrier(2, 64), threads 32-127 exited"},
    {"unequal_groups", 128, 1, 0,
     "block 0 thread 32 waits at barrier 1 for 96 threads where others wait for 64"},
    {"split_warps", 128, 1, 0,
     "block 0 thread 126 completes barrier 1 with 16 of 32 lanes of warp 0"},
    {"no_such_barrier", 64, 1, 0, "block 0 thread 0 waits at barrier 16; allowed are 1 to 15"},
    {"odd_group", 64, 1, 0,
     "block 0 thread 0 waits at barrier 1 for 40 threads; allowed are multiples of 32 up to 64"},
    {"far_shuffle", 64, 1, 0,
     "block 0 thread 0 shuffles with the lane at distance 32; allowed are 0 to 31"},
};

std::string mistakeName(const testing::TestParamInfo<Mistake>& info) {
  return fmt::format("{}_{}", info.param.kernel, info.index);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Errors, testing::ValuesIn(mistakes), mistakeName);

TEST(LaunchErrors, ImpossibleLaunchesAreRefused) {
  EXPECT_EQ(errorOf(ErrorKind::input, [] { run({"copy", 48, 1, 0, ""}); }),
            "copy: 48 threads a block; allowed are multiples of 32 up to 1024");
  EXPECT_EQ(errorOf(ErrorKind::input, [] { run({"copi", 32, 1, 0, ""}); }),
            "the kernel text has no entry point 'copi'; check the launch plan");
  // The text calls the C library, whose functions are no kernels.
  EXPECT_EQ(errorOf(ErrorKind::input, [] { run({"system", 32, 1, 0, ""}); }),
            "the kernel text has no entry point 'system'; check the launch plan");
  HostLaunch many = {.name = "copy", .blocks = 1, .threads = 32};
  many.arguments.resize(129);
  EXPECT_EQ(errorOf(ErrorKind::input, [&] { runKernel(*HostLibrary::compile(copyText), many); }),
            "copy: 129 arguments; the host target passes at most 128");
}

TEST(InPlace, AnOutputMayShareMemoryWithAnInput) {
  std::vector<float> x(128, 3.0f);
  runKernel(*HostLibrary::compile(copyText), {.name = "copy",
                                              .blocks = 1,
                                              .threads = 32,
                                              .arguments = {pointer(x), pointer(x), 0},
                                              .regions = {input("x", x), output("y", x)}});
  EXPECT_EQ(x, std::vector<float>(128, 3.0f));
}

} // namespace
} // namespace kiln::test
