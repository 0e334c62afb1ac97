// Steps around products of warpgroups that a kernel could leave out, and might get away with on a
// GPU: the host target tells each.
#include "test/host/WgmmaKernels.h"

#include <gmock/gmock.h>

#include <cmath>

namespace kiln::test {
namespace {

struct WgmmaMistake {
  const char *name, *step, *instead, *message;
  bool ofLoadedTiles = false;
};

class WgmmaMistakes : public testing::TestWithParam<WgmmaMistake> {};

TEST_P(WgmmaMistakes, AreReported) {
  const WgmmaMistake& mistake = GetParam();
  const ProductCase one{"bf16", 64, 128, false, 128, true};
  ProductData data(64, true, false);
  EXPECT_THAT(errorOf(ErrorKind::verification,
                      [&] {
                        if (mistake.ofLoadedTiles)
                          runLoaded(data, withStep(loadedText, mistake.step, mistake.instead));
                        else
                          data.run(withStep(textOf({one}), mistake.step, mistake.instead),
                                   one.name());
                      }),
              testing::HasSubstr(mistake.message));
}

const WgmmaMistake wgmmaMistakes[] = {
    {"FenceOfWrites", "bulk_copy_fence();", "",
     "starts a wgmma that reads 16 bytes at shared memory + 8192, which thread 0 wrote; no "
     "bulk_copy_fence lies between"},
    {"FenceOfOneWarp", "bulk_copy_fence();", "if (thread_index() < 32) bulk_copy_fence();",
     "no bulk_copy_fence lies between"},
    {"BarrierBehindWrites", "block_barrier();", "", "writes; no barrier lies between"},
    {"FenceOfRegisters", "wgmma_fence();", "",
     "block 0 thread 0 starts a wgmma with no wgmma_fence since its last wgmma_wait, or its start"},
    {"EndOfGroup", "wgmma_commit();", "", "ends before a wgmma that it started"},
    {"Wait", "wgmma_wait<0>();", "", "ends before a wgmma that it started"},
    {"WaitForAll", "wgmma_wait<0>();", "wgmma_wait<1>();", "ends before a wgmma that it started"},
    {"OverwrittenOperand", "wgmma_wait<0>();",
     "store_shared(swizzled_memory() + thread_index() * 2, u16(0));\n  wgmma_wait<0>();",
     "writes 2 bytes at shared memory + 0 that a wgmma reads; no wait for it lies between"},
    {"WrittenSums", "wgmma_wait<0>();", "sums[3] = 1.0f;\n  wgmma_wait<0>();",
     "has written accumulators of a wgmma before it waited for it"},
    {"ChangedSums", "wgmma_commit();",
     "sums[0] = 0.0f;\n  wgmma<T, n, transposed_a, transposed_b>(sums, A::step(swizzled_memory(), "
     "0), "
     "B::step(b_tile, 0), true);",
     "has written accumulators of a wgmma before it waited for it"},
    {"SharedSums", "wgmma_commit();",
     "wgmma<T, 8, transposed_a, transposed_b>(*reinterpret_cast<float(*)[4]>(sums + 8), "
     "A::step(swizzled_memory(), 0), B::step(b_tile, 0), true);",
     "on some of the accumulators of another that it has not waited for"},
    {"MissingWarp", "wgmma_fence();", "wgmma_fence();\n  if (thread_index() < 96)",
     "diverged: threads 0-95 wait in wgmma, threads 96-127 exited"},
    {"OtherDescriptor", "A::step(swizzled_memory(), k), B::step(b_tile, k)",
     "A::step(swizzled_memory(), k), B::step(b_tile, k) + thread_index() / 64 * 16",
     "block 0 thread 64 starts another wgmma than thread 0 of its warpgroup"},
    {"OtherGroup", "wgmma_fence();", "wgmma_fence();\n  if (thread_index() == 5) wgmma_commit();",
     "block 0 thread 5 starts a wgmma after 1 wgmma_commit where thread 0 of its warpgroup starts "
     "it after 0"},
    {"NoSwizzle", "A::step(swizzled_memory(), k), B::step(b_tile, k)",
     "MatrixDescriptor{A::step(swizzled_memory(), k).bits & ~(3ull << 62)}, B::step(b_tile, k)",
     "allowed are swizzles 1 to 3"},
    {"BeyondMemory", "A::step(swizzled_memory(), k), B::step(b_tile, k)",
     "A::step(swizzled_memory(), k) + 64 * 1024, B::step(b_tile, k)", "the block has 65536 bytes"},
    {"UnsetOperand", "A::fill(swizzled_memory(), a);", "", "was never written by this block"},
    {"WaitForTiles", "mbarrier_wait(full, 0);  // loaded", "",
     "that a bulk copy writes; no barrier lies between", true},
    {"TileOverOperand", "wgmma_wait<0>();  // multiplied", "",
     "copies 16 bytes at shared memory + 0 that a wgmma reads; no wait for it lies between", true},
    {"TileOverOperandOfOthers", "wgmma_wait<0>();  // multiplied",
     "if (thread_index() != 0) wgmma_wait<0>();",
     "copies 16 bytes at shared memory + 0 that a wgmma reads", true},
};

INSTANTIATE_TEST_SUITE_P(Steps, WgmmaMistakes, testing::ValuesIn(wgmmaMistakes),
                         [](const auto& info) { return info.param.name; });

TEST(Wgmma, SumsAreNoNumbersBeforeTheWait) {
  const ProductCase one{"f16", 32, 64, true, 32, false};
  ProductData data(32, false, false);
  const std::string wait = "wgmma_commit();\n  wgmma_wait<0>();\n  pin(sums);\n";
  std::string text = withStep(textOf({one}), wait, "wgmma_commit();\n");
  data.run(withStep(text, "sums[i]);\n}", "sums[i]);\n  wgmma_wait<0>();\n}"), one.name());
  for (float value : data.d)
    EXPECT_TRUE(std::isnan(value));
}

/// Two products of the first step, in a group each, of which the first is waited for and scaled
/// while the other is pending, and goes on in a third.
TEST(Wgmma, GroupsAreWaitedForInOrder) {
  const ProductCase one{"bf16", 32, 64, true, 32, false};
  const std::string first = "A::step(swizzled_memory(), 0), B::step(b_tile, 0), ";
  const std::string wgmma = "wgmma<T, n, transposed_a, transposed_b>";
  const std::string ends = "wgmma_wait<0>();\n  pin(sums);\n";
  ProductData data(32, true, false), plain = data;
  plain.run(withStep(textOf({one}), "k < depth", "k < 16"), one.name());
  const std::string text = withStep(textOf({one}), "k < depth", "k < 0");
  data.run(withStep(text, "wgmma_commit();\n  " + ends,
                    fmt::format("float others[n / 2];\n"
                                "  {0}(others, {1} false);\n  wgmma_commit();\n"
                                "  {0}(sums, {1} false);\n  wgmma_commit();\n"
                                "  wgmma_wait<1>();\n"
                                "  for (int i = 0; i < n / 2; ++i) others[i] *= 8.0f;\n"
                                "  wgmma_fence();\n"
                                "  {0}(sums, {1} true);\n  wgmma_commit();\n"
                                "  const bool pending = sums[0] != sums[0];\n  {2}"
                                "  for (int i = 0; i < n / 2; ++i)\n"
                                "    sums[i] = others[i] + sums[i] + (pending ? 0.0f : 1.0f);\n",
                                wgmma, first, ends)),
           one.name());
  for (std::size_t i = 0; i < data.d.size(); ++i)
    EXPECT_EQ(data.d[i], 10 * plain.d[i]);
}

TEST(Wgmma, TakesWholeWarpgroups) {
  const std::string text = "#include \"wgmma.cuh\"\nKILN_KERNEL(160, 1) wait() "
                           "{ kiln::wgmma_wait<0>(); }";
  ProductData data(8, false, false);
  EXPECT_THAT(errorOf(ErrorKind::verification, [&] { data.run(text, "wait", 160); }),
              testing::HasSubstr("thread 128 takes part in a wgmma; its warpgroup has 32 threads, "
                                 "not 128"));
}

} // namespace
} // namespace kiln::test
