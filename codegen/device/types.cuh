// Element types and short vectors as they lie in memory. No CUDA or C++ library header is
// included: each costs up to seconds in a run-time compilation, these cost milliseconds.
// Arithmetic is done in float; bf16 and f16 only convert, rounding to nearest even.
#pragma once

#include "target.cuh"

namespace kiln {

struct bf16 {
  u16 bits;
  bf16() = default;
  KILN_DEVICE explicit bf16(float value) : bits(float_to_bf16(value)) {}
  static KILN_DEVICE bf16 from_bits(u16 bits) { return __builtin_bit_cast(bf16, bits); }
  KILN_DEVICE explicit operator float() const { return bits_to_float(u32(bits) << 16); }
};

struct f16 {
  u16 bits;
  f16() = default;
  KILN_DEVICE explicit f16(float value) : bits(float_to_f16(value)) {}
  static KILN_DEVICE f16 from_bits(u16 bits) { return __builtin_bit_cast(f16, bits); }
  KILN_DEVICE explicit operator float() const { return f16_to_float(bits); }
};

template <class T> inline constexpr bool is_half = same_type<T, bf16> || same_type<T, f16>;

/// `count` elements that are loaded and stored together; at most 16 bytes make one access.
template <class T, int count, bool packed = is_half<T> && count % 2 == 0>
struct alignas(sizeof(T) * count >= 16 ? 16 : sizeof(T) * count) Vec {
  static_assert((count & (count - 1)) == 0, "a vector holds a power of two of elements");
  T data[count];
  KILN_DEVICE T& operator[](int i) { return data[i]; }
  KILN_DEVICE const T& operator[](int i) const { return data[i]; }
};

/// One of the two elements of a word.
template <class T> struct Half {
  u32& word;
  int shift;
  KILN_DEVICE Half& operator=(T value) {
    word = (word & ~(0xffffu << shift)) | u32(value.bits) << shift;
    return *this;
  }
};

/// Pairs of 2-byte elements stay the words that they are loaded as: to widen one takes a single
/// instruction on its word, but two or three on a 16-bit part.
template <class T, int count>
struct alignas(sizeof(T) * count >= 16 ? 16 : sizeof(T) * count) Vec<T, count, true> {
  static_assert((count & (count - 1)) == 0, "a vector holds a power of two of elements");
  u32 words[count / 2] = {};
  KILN_DEVICE Half<T> operator[](int i) { return {words[i / 2], i % 2 * 16}; }
  KILN_DEVICE T operator[](int i) const { return T::from_bits(u16(words[i / 2] >> (i % 2 * 16))); }
};

KILN_DEVICE u32 pack_pair(bf16, float low, float high) {
  return float_to_bf16x2(low, high);
}
KILN_DEVICE u32 pack_pair(f16, float low, float high) {
  return float_to_f16x2(low, high);
}

/// Rounds a vector of float to its storage type, two elements an instruction where there is one.
template <class T, class From, int count>
KILN_DEVICE Vec<T, count> convert(const Vec<From, count>& from) {
  Vec<T, count> to;
  if constexpr (same_type<T, From>) {
    to = from;
  } else if constexpr (sizeof(T) == 2 && count % 2 == 0) {
    Vec<u32, count / 2> words;
#pragma unroll
    for (int i = 0; i < count / 2; ++i)
      words[i] = pack_pair(T{}, from[2 * i], from[2 * i + 1]);
    to = __builtin_bit_cast(Vec<T, count>, words);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i)
      to[i] = T(from[i]);
  }
  return to;
}

/// Orders of two that C++ has no operator for.
KILN_DEVICE bool less_or_greater(float a, float b) {
  return a < b || a > b;
}
KILN_DEVICE bool unordered(float a, float b) {
  return a != a || b != b;
}

/// value / divisor for a constant neither tiny nor huge: its reciprocal and one correction, which
/// rounds correctly where the quotient is a normal number. (A division has a branch for the
/// others.)
KILN_DEVICE float divide_by(float value, float divisor) {
  const float reciprocal = 1.0f / divisor;
  const float quotient = value * reciprocal;
  const float rest = fmaf(-quotient, divisor, value);
  return rest == rest ? fmaf(rest, reciprocal, quotient) : quotient; // infinite: as it is
}

} // namespace kiln
