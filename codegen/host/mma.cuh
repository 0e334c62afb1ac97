// The host twin of device/mma.cuh. Lanes hand each other their registers in one exchange an
// instruction, and each computes what it is to hold. Rows of matrices are read and written by the
// lanes that name them, so that races and reads of bytes nobody wrote are found.
#pragma once

#include "types.cuh"

namespace kiln {

/// The words that each lane brings, once all have come: (32, words).
template <int words>
KILN_DEVICE const u32* exchange_words(HostCollective what, const u32 (&mine)[words]) {
  static_assert(words <= hostExchangeWords, "a lane brings fewer words");
  return host_runtime.exchange(host_runtime.context, what, mine, words);
}

//===- Products -----------------------------------------------------------------------------===//

/// d += a b, with the product of two words given. As on the hardware, sums are cut off once.
template <class Product>
inline void multiply_fragments(HostCollective what, float (&d)[4], const u32 (&a)[4], u32 b0,
                               u32 b1, Product product) {
  const u32 mine[] = {a[0], a[1], a[2], a[3], b0, b1};
  constexpr int words = sizeof mine / sizeof *mine;
  const u32* all = exchange_words(what, mine);
  const int g = thread_index() % 32 / 4, t = thread_index() % 4;
  for (int i = 0; i < 4; ++i) {
    double sum = d[i];
    for (int step = 0; step < 8; ++step) {
      const u32* row = all + (4 * g + step % 4) * words;
      const u32* column = all + (4 * (2 * t + i % 2) + step % 4) * words;
      sum += product(row[i / 2 + step / 4 * 2], column[4 + step / 4]);
    }
    d[i] = hostCutOff(sum);
  }
}

template <class T> KILN_DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(is_half<T>, "such products are of bf16 or f16");
  multiply_fragments(multiplyFragments, d, a, b0, b1, [](u32 x, u32 y) {
    return double(float(T::from_bits(u16(x)))) * float(T::from_bits(u16(y))) +
           double(float(T::from_bits(u16(x >> 16)))) * float(T::from_bits(u16(y >> 16)));
  });
}

template <class T> KILN_DEVICE void mma_shallow(float (&d)[4], const u32 (&a)[2], u32 b) {
  const u32 whole[] = {a[0], a[1], 0, 0};
  mma<T>(d, whole, b, 0);
}

KILN_DEVICE u32 float_to_tf32(float value) {
  const u32 bits = float_to_bits(value);
  return value != value ? 0x7fffffffu : (bits + 0x1000u) & ~0x1fffu;
}
KILN_DEVICE void mma_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply_fragments(multiplyTf32, d, a, b0, b1, [](u32 x, u32 y) {
    // The hardware reads no more bits.
    return double(bits_to_float(x & ~0x1fffu)) * bits_to_float(y & ~0x1fffu);
  });
}

//===- Matrices in shared memory ------------------------------------------------------------===//

struct alignas(16) MatrixRow {
  u32 words[4];
};

/// This lane's part of `matrix`, from the rows that the lanes have read.
template <bool transposed> KILN_DEVICE u32 part_of_matrix(const u32* rows, int matrix) {
  const int g = thread_index() % 32 / 4, t = thread_index() % 4;
  rows += matrix * 8 * 4;
  if constexpr (!transposed)
    return rows[4 * g + t];
  const int shift = g % 2 * 16;
  const u32 low = rows[4 * (2 * t) + g / 2] >> shift;
  const u32 high = rows[4 * (2 * t + 1) + g / 2] >> shift;
  return (low & 0xffffu) | high << 16;
}

template <bool transposed> inline void load_matrices(u32 (&r)[4], const void* row) {
  const u32* rows = exchange_words(loadMatrices, load_shared<MatrixRow>(row).words);
  for (int matrix = 0; matrix < 4; ++matrix)
    r[matrix] = part_of_matrix<transposed>(rows, matrix);
}
template <bool transposed> inline void load_matrices2(u32 (&r)[2], const void* row) {
  MatrixRow mine = {};
  if (thread_index() % 32 < 16)
    mine = load_shared<MatrixRow>(row);
  const u32* rows = exchange_words(loadMatrices2, mine.words);
  for (int matrix = 0; matrix < 2; ++matrix)
    r[matrix] = part_of_matrix<transposed>(rows, matrix);
}

template <bool transposed> inline void store_matrices(void* row, const u32 (&r)[4]) {
  const u32* parts = exchange_words(storeMatrices, r);
  const int matrix = thread_index() % 32 / 8, line = thread_index() % 8;
  MatrixRow mine = {};
  for (int column = 0; column < 8; ++column) {
    const int lane = transposed ? 4 * column + line / 2 : 4 * line + column / 2;
    const u32 pair = parts[4 * lane + matrix];
    const u32 element = pair >> (transposed ? line : column) % 2 * 16 & 0xffffu;
    mine.words[column / 2] |= element << column % 2 * 16;
  }
  store_shared(row, mine);
}

KILN_DEVICE void copy_to_shared_or_zero(void* to, const void* from, bool exists) {
  if (exists)
    copy_to_shared<16>(to, from);
  else
    store_shared(to, MatrixRow{});
}

//===- Votes --------------------------------------------------------------------------------===//

/// Bit l: the vote of lane l.
KILN_DEVICE u32 lanes_that(bool vote) {
  const u32 mine[] = {vote};
  const u32* all = exchange_words(voteLanes, mine);
  u32 votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    votes |= all[lane] << lane;
  return votes;
}
KILN_DEVICE bool any_lane(bool vote) {
  return lanes_that(vote) != 0;
}
KILN_DEVICE bool all_lanes(bool vote) {
  return lanes_that(vote) == ~0u;
}

//===- Arithmetic ---------------------------------------------------------------------------===//

/// Zero for subnormal numbers.
KILN_DEVICE float flushed(float value) {
  return (float_to_bits(value) & 0x7f800000u) == 0
             ? bits_to_float(float_to_bits(value) & 0x80000000u)
             : value;
}
KILN_DEVICE float exp2_approximate(float value) {
  return flushed(exp2f(flushed(value)));
}
KILN_DEVICE float log2_approximate(float value) {
  return log2f(flushed(value));
}
KILN_DEVICE float reciprocal_approximate(float value) {
  return flushed(1.0f / flushed(value));
}

} // namespace kiln
