// Products of tiles by a warpgroup, four warps that follow one another from a multiple of four on
// (wgmma of sm_90a), one function an instruction, as in target.cuh, and like that file replaced on
// the host target (host/wgmma.cuh). All 128 threads take part in each. A product is started, and
// done when the group that it was put in has been waited for: until then nobody touches its
// accumulators or writes what it reads. What threads wrote to shared memory it sees behind
// bulk_copy_fence, as bulk copies do.
#pragma once

#include "descriptor.cuh"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma.cuh: products by warpgroups are of sm_90a alone; mma.cuh has those of other targets"
#endif

namespace kiln {

//===- Order --------------------------------------------------------------------------------===//

/// What the threads did to registers comes before products that use them. After each wait, and at
/// the start, one fence comes before the next product.
KILN_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group of products.
KILN_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until of the groups all but the last `groups` are done.
template <int groups> KILN_DEVICE void wgmma_wait() {
  static_assert(groups >= 0 && groups <= 7, "a wait leaves 0 to 7 groups");
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
/// Keeps the compiler from moving what is done to accumulators across this place. One stands before
/// the fence of products that use them, and one behind the wait.
template <int count> KILN_DEVICE void pin(float (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(registers[i])::"memory");
}
/// The same of a left operand in registers.
template <int count> KILN_DEVICE void pin(u32 (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+r"(registers[i])::"memory");
}

//===- The instruction's text ---------------------------------------------------------------===//

// The accumulators of each N as the text names them, and as operands.
// clang-format off
#define KILN_REGISTERS_8 "%0, %1, %2, %3"
#define KILN_REGISTERS_16 KILN_REGISTERS_8 ", %4, %5, %6, %7"
#define KILN_REGISTERS_24 KILN_REGISTERS_16 ", %8, %9, %10, %11"
#define KILN_REGISTERS_32 KILN_REGISTERS_24 ", %12, %13, %14, %15"
#define KILN_REGISTERS_40 KILN_REGISTERS_32 ", %16, %17, %18, %19"
#define KILN_REGISTERS_48 KILN_REGISTERS_40 ", %20, %21, %22, %23"
#define KILN_REGISTERS_64 KILN_REGISTERS_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KILN_REGISTERS_80 KILN_REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define KILN_REGISTERS_96 KILN_REGISTERS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define KILN_REGISTERS_128 KILN_REGISTERS_96                                                       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KILN_REGISTERS_192 KILN_REGISTERS_128                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"               \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define KILN_REGISTERS_256 KILN_REGISTERS_192                                                      \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"   \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define KILN_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KILN_SIXTEEN(i) KILN_FOUR(i), KILN_FOUR(i + 4), KILN_FOUR(i + 8), KILN_FOUR(i + 12)
#define KILN_SUMS_8 KILN_FOUR(0)
#define KILN_SUMS_16 KILN_SUMS_8, KILN_FOUR(4)
#define KILN_SUMS_24 KILN_SUMS_16, KILN_FOUR(8)
#define KILN_SUMS_32 KILN_SUMS_24, KILN_FOUR(12)
#define KILN_SUMS_40 KILN_SUMS_32, KILN_FOUR(16)
#define KILN_SUMS_48 KILN_SUMS_40, KILN_FOUR(20)
#define KILN_SUMS_64 KILN_SUMS_48, KILN_FOUR(24), KILN_FOUR(28)
#define KILN_SUMS_80 KILN_SUMS_64, KILN_FOUR(32), KILN_FOUR(36)
#define KILN_SUMS_96 KILN_SUMS_80, KILN_FOUR(40), KILN_FOUR(44)
#define KILN_SUMS_128 KILN_SUMS_96, KILN_SIXTEEN(48)
#define KILN_SUMS_192 KILN_SUMS_128, KILN_SIXTEEN(64), KILN_SIXTEEN(80)
#define KILN_SUMS_256 KILN_SUMS_192, KILN_SIXTEEN(96), KILN_SIXTEEN(112)

// N, and the numbers of the operands that follow its N / 2 accumulators.
#define KILN_WGMMA_SHAPES(shape)                                                                   \
  shape(8, 4, 5, 6, 7, 8, 9, 10)                                                                   \
  shape(16, 8, 9, 10, 11, 12, 13, 14)                                                              \
  shape(24, 12, 13, 14, 15, 16, 17, 18)                                                            \
  shape(32, 16, 17, 18, 19, 20, 21, 22)                                                            \
  shape(40, 20, 21, 22, 23, 24, 25, 26)                                                            \
  shape(48, 24, 25, 26, 27, 28, 29, 30)                                                            \
  shape(64, 32, 33, 34, 35, 36, 37, 38)                                                            \
  shape(80, 40, 41, 42, 43, 44, 45, 46)                                                            \
  shape(96, 48, 49, 50, 51, 52, 53, 54)                                                            \
  shape(128, 64, 65, 66, 67, 68, 69, 70)                                                           \
  shape(192, 96, 97, 98, 99, 100, 101, 102)                                                        \
  shape(256, 128, 129, 130, 131, 132, 133, 134)

#define KILN_WGMMA(type, n, accumulate, operands)                                                  \
  "{\n"                                                                                            \
  ".reg .pred keep;\n"                                                                             \
  "setp.ne.b32 keep, %" #accumulate ", 0;\n"                                                       \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                                  \
  " {" KILN_REGISTERS_##n "}, " operands ";\n"                                                     \
  "}"
#define KILN_FROM_MEMORY(type, n, a, b, keep, ta, tb)                                              \
  asm volatile(KILN_WGMMA(type, n, keep, "%" #a ", %" #b ", keep, 1, 1, %" #ta ", %" #tb)          \
               : KILN_SUMS_##n                                                                     \
               : "l"(a_tile.bits), "l"(b_tile.bits), "r"(int(accumulate)), "n"(int(transposedA)),  \
                 "n"(int(transposedB))                                                             \
               : "memory")
#define KILN_FROM_REGISTERS(type, n, a0, a1, a2, a3, b, keep, tb)                                  \
  asm volatile(KILN_WGMMA(type, n, keep, "{%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b          \
                                         ", keep, 1, 1, %" #tb)                                    \
               : KILN_SUMS_##n                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_tile.bits),                     \
                 "r"(int(accumulate)), "n"(int(transposedB))                                       \
               : "memory")
// clang-format on

//===- Products -----------------------------------------------------------------------------===//

// Thread t holds, with w = t / 32, g = t % 32 / 4 and c = t % 4 * 2, of d (64, N):
//   d[4 j + 2 i + e]: row 16 w + g + 8 i, column 8 j + c + e
// and of a (64, 16) what a lane of warp w holds in mma.cuh.

/// d = a b, or d += a b, for a (64, 16) and b (16, N) of bf16 or f16 in shared memory: k_major, or
/// mn_major where it is transposed.
template <class T, int N, bool transposedA, bool transposedB>
KILN_DEVICE void wgmma(float (&d)[N / 2], MatrixDescriptor a_tile, MatrixDescriptor b_tile,
                       bool accumulate) {
  check_wgmma<T, N>();
#define KILN_SHAPE(n, i0, i1, i2, i3, i4, i5, i6)                                                  \
  if constexpr (N == n && same_type<T, bf16>)                                                      \
    KILN_FROM_MEMORY("bf16", n, i0, i1, i2, i3, i4);                                               \
  else if constexpr (N == n)                                                                       \
    KILN_FROM_MEMORY("f16", n, i0, i1, i2, i3, i4);
  KILN_WGMMA_SHAPES(KILN_SHAPE)
#undef KILN_SHAPE
}

/// The same with a in registers.
template <class T, int N, bool transposedB>
KILN_DEVICE void wgmma(float (&d)[N / 2], const u32 (&a)[4], MatrixDescriptor b_tile,
                       bool accumulate) {
  check_wgmma<T, N>();
#define KILN_SHAPE(n, i0, i1, i2, i3, i4, i5, i6)                                                  \
  if constexpr (N == n && same_type<T, bf16>)                                                      \
    KILN_FROM_REGISTERS("bf16", n, i0, i1, i2, i3, i4, i5, i6);                                    \
  else if constexpr (N == n)                                                                       \
    KILN_FROM_REGISTERS("f16", n, i0, i1, i2, i3, i4, i5, i6);
  KILN_WGMMA_SHAPES(KILN_SHAPE)
#undef KILN_SHAPE
}

#undef KILN_FROM_REGISTERS
#undef KILN_FROM_MEMORY
#undef KILN_WGMMA
#undef KILN_WGMMA_SHAPES
} // namespace kiln
