// Products of small matrices by a warp (mma.sync), the moves between shared memory and the
// registers that hold such matrices (ldmatrix, stmatrix), and what else tiles of scores take:
// votes, fast powers of two, copies of rows that may not exist. For sm_80 and newer; one function
// an instruction, as in target.cuh, and like that file replaced on the host target (host/mma.cuh).
// All 32 lanes take part in each product, move and vote.
#pragma once

#include "types.cuh"

namespace kiln {

//===- Products -----------------------------------------------------------------------------===//

// Lane l holds, with g = l / 4 and t = l % 4, of a (16, 16), b (16, 8) and d (16, 8), two 2-byte
// elements a word:
//   a[i]: row g + 8 (i % 2), columns 2t and 2t + 1, and 8 more from a[2] on
//   b0, b1: column g, rows 2t and 2t + 1, and 8 more
//   d[i]: row g + 8 (i / 2), column 2t + i % 2

/// d += a b for bf16 or f16.
template <class T> KILN_DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(is_half<T>, "such products are of bf16 or f16");
  if constexpr (same_type<T, bf16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same of half the depth: a (16, 8) and b (8, 8), which a[0], a[1] and b0 hold.
template <class T> KILN_DEVICE void mma_shallow(float (&d)[4], const u32 (&a)[2], u32 b) {
  static_assert(is_half<T>, "such products are of bf16 or f16");
  if constexpr (same_type<T, bf16>)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
  else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}

/// Rounds to the 10 bits of mantissa that mma_tf32 takes, ties away from 0.
KILN_DEVICE u32 float_to_tf32(float value) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
/// d += a b for a (16, 8) and b (8, 8) of tf32, an element a word: column (of b: row) t where the
/// 2-byte types have 2t and 2t + 1, and 4 more where they have 8 more.
KILN_DEVICE void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

//===- Matrices in shared memory ------------------------------------------------------------===//

// Each register is a part of a matrix of 8 by 8 two-byte elements: lane l has row l / 4, columns
// 2 (l % 4) and the next; of a transposed one column l / 4, rows 2 (l % 4) and the next. Lane l
// names row l % 8 of matrix l / 8, which are 16 bytes of shared memory, aligned to 16.

template <bool transposed> KILN_DEVICE void load_matrices(u32 (&r)[4], const void* row) {
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
/// Two matrices; what lanes 16 to 31 name is not read.
template <bool transposed> KILN_DEVICE void load_matrices2(u32 (&r)[2], const void* row) {
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}

// Older targets have no such instruction, and a kernel for them that calls it does not compile.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <bool transposed> KILN_DEVICE void store_matrices(void* row, const u32 (&r)[4]) {
  if constexpr (transposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
#endif

/// copy_to_shared of 16 bytes, or 16 zeros where `from` does not exist, which is then not read.
KILN_DEVICE void copy_to_shared_or_zero(void* to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

//===- Votes --------------------------------------------------------------------------------===//

KILN_DEVICE bool any_lane(bool vote) {
  return __any_sync(0xffffffffu, vote);
}
/// The lanes (bit l: lane l) that vote for it.
KILN_DEVICE u32 lanes_that(bool vote) {
  return __ballot_sync(0xffffffffu, vote);
}
KILN_DEVICE bool all_lanes(bool vote) {
  return __all_sync(0xffffffffu, vote);
}

//===- Arithmetic ---------------------------------------------------------------------------===//

// Subnormal arguments and results are 0.

/// Off by 2 units of the last place at most.
KILN_DEVICE float exp2_approximate(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
/// Off by 2^-22, of the logarithm itself near 1 and relative to it elsewhere.
KILN_DEVICE float log2_approximate(float value) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
/// Off by 1 unit of the last place at most.
KILN_DEVICE float reciprocal_approximate(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

} // namespace kiln
