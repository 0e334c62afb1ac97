// Mistakes with matrix instructions of a warp on the host target, each with the message that it
// makes.
#include "test/host/Harness.h"

#include <fmt/format.h>

namespace kiln::test {
namespace {

constexpr const char* mistakeText = R"(#include "mma.cuh"
using namespace kiln;

struct alignas(16) Row { u32 words[4]; };
KILN_DEVICE char* place(int row) { return shared_memory() + row * 16; }

KILN_KERNEL(64, 1) unset_row() {
  u32 r[4];
  if (thread_index() % 32 != 9)
    store_shared(place(thread_index()), Row{});
  warp_barrier();
  load_matrices<false>(r, place(thread_index()));
}
KILN_KERNEL(64, 1) unset_row_of_two() {
  u32 r[2];
  if (thread_index() != 15)
    store_shared(place(thread_index()), Row{});
  warp_barrier();
  load_matrices2<true>(r, place(thread_index()));
}
KILN_KERNEL(64, 1) misaligned_row() {
  u32 r[4] = {};
  store_matrices<false>(shared_memory() + thread_index() * 8, r);
}
KILN_KERNEL(64, 1) other_warps_rows() {
  u32 r[4] = {};
  store_matrices<false>(place(thread_index()), r);
  warp_barrier();
  load_matrices<false>(r, place(thread_index() ^ 32));
}
KILN_KERNEL(64, 1) both_warps_store() {
  u32 r[4] = {};
  store_matrices<true>(place(thread_index() % 32), r);
}
KILN_KERNEL(64, 1) no_barrier_after_store() {
  u32 r[4] = {};
  store_matrices<true>(place(thread_index()), r);
  load_shared<u32>(place(thread_index() & ~1));
}
KILN_KERNEL(64, 1) no_barrier_before_load() {
  u32 r[4];
  store_shared(place(thread_index()), Row{});
  load_matrices<false>(r, place(thread_index() & ~1));
}
KILN_KERNEL(64, 1) missing_lane() {
  float d[4] = {};
  const u32 a[4] = {};
  if (thread_index() != 40)
    mma<bf16>(d, a, 0, 0);
}
KILN_KERNEL(64, 1) two_instructions() {
  float d[4] = {};
  const u32 a[4] = {};
  if (thread_index() == 40)
    mma_tf32(d, a, 0, 0);
  else
    mma<bf16>(d, a, 0, 0);
}
KILN_KERNEL(64, 1) lone_uniform() {
  if (thread_index() == 40)
    uniform(3);
}
KILN_KERNEL(64, 1) uniform_of_others() {
  uniform(thread_index() / 16);
}
)";

struct MatrixMistake {
  const char *kernel, *message;
};

const MatrixMistake matrixMistakes[] = {
    {"unset_row", "block 0 thread 9 reads 16 bytes at shared memory + 144; byte 144 was never "
                  "written by this block"},
    {"unset_row_of_two", "block 0 thread 15 reads 16 bytes at shared memory + 240; byte 240 was "
                         "never written by this block"},
    {"misaligned_row", "block 0 thread 1 writes 16 bytes at shared memory + 8, which is not "
                       "aligned to 16"},
    {"other_warps_rows", "block 0 thread 0 reads 16 bytes at shared memory + 512 that thread 32 "
                         "writes; no barrier lies between"},
    {"both_warps_store", "block 0 thread 32 writes 16 bytes at shared memory + 0 that thread 0 "
                         "also writes; no barrier lies between"},
    {"no_barrier_after_store", "block 0 thread 1 reads 4 bytes at shared memory + 0 that thread 0 "
                               "writes; no barrier lies between"},
    {"no_barrier_before_load", "block 0 thread 1 reads 16 bytes at shared memory + 0 that thread "
                               "0 writes; no barrier lies between"},
    {"missing_lane", "block 0 diverged: threads 0-31 exited, threads 32-39 wait in mma, thread 40 "
                     "exited, threads 41-63 wait in mma"},
    {"two_instructions", "block 0 thread 40 takes part in mma_tf32 where other lanes of its warp "
                         "take part in mma"},
    {"lone_uniform", "block 0 diverged: threads 0-39 exited, thread 40 waits in uniform, threads "
                     "41-63 exited"},
    {"uniform_of_others", "block 0 thread 16 calls uniform(1) where the first lane of its warp "
                          "has 0"},
};

class MatrixMistakes : public testing::TestWithParam<MatrixMistake> {};

TEST_P(MatrixMistakes, AreReported) {
  const auto& [kernel, message] = GetParam();
  EXPECT_EQ(errorOf(ErrorKind::verification,
                    [&, name = kernel] {
                      runKernel(*HostLibrary::compile(mistakeText),
                                {.name = name, .blocks = 1, .threads = 64, .sharedBytes = 1024});
                    }),
            fmt::format("{}: {}", kernel, message));
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatrixMistakes, testing::ValuesIn(matrixMistakes),
                         [](const auto& info) { return info.param.kernel; });

} // namespace
} // namespace kiln::test
