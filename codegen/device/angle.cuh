// Sine and cosine in fp32, for every angle: an angle is a number of quarter turns and a rest within
// an eighth of a turn, on which both are short polynomials. (CUDA's own keep an array in local
// memory for large angles, which looks like spilled registers.) The result is off by less than 1.6
// units in its last place.
#pragma once

#include "target.cuh"

namespace kiln {

/// quarters * pi / 2 + rest
struct Angle {
  float rest;
  int quarters; // modulo 4
};

/// Above 2^20: the angle times 2 / pi in fixed point, with those 128 bits of 2 / pi that count
/// (Payne, Hanek, Radian Reduction for Trigonometric Functions, 1983).
KILN_OUTLINE Angle reduce_far_angle(float angle) {
  static const u32 two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                    0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const u32 bits = __builtin_bit_cast(u32, angle);
  const int exponent = int(bits >> 23 & 255);
  if (exponent == 255)
    return {angle - angle, 0}; // NaN
  const u64 mantissa = (bits & 0x7fffffu) | 0x800000u;
  const u32* words = two_over_pi + (exponent - 120) / 32;
  const int shift = (exponent - 120) % 32; // more of the 128 bits are multiples of 4
  const u64 p0 = mantissa * words[3];
  const u64 p1 = mantissa * words[2] + (p0 >> 32);
  const u64 p2 = mantissa * words[1] + (p1 >> 32);
  const u64 p3 = mantissa * words[0] + (p2 >> 32);
  const u64 turns = (p3 << 32 | u32(p2)) << shift | u64(u32(p1)) << shift >> 32;
  const float rest =
      float(double(i64(turns << 2)) * 0x1.921fb54442d18p-64); // of the nearest quarter
  const int quarters = int((turns >> 61) + 1 >> 1);
  return bits >> 31 ? Angle{-rest, -quarters} : Angle{rest, quarters};
}

/// Up to 2^20: pi / 2 in three parts (Cody, Waite, Software Manual for the Elementary Functions,
/// 1980), of which the first has so few bits that nothing of its multiples is lost.
KILN_DEVICE Angle reduce_near_angle(float angle) {
  const float shifted = fmaf(angle, 0x1.45f306p-1f, 0x1.8p23f); // the sum rounds to an integer
  const float quarters = shifted - 0x1.8p23f;
  float rest = fmaf(quarters, -0x1.921fb4p+0f, angle);
  rest = fmaf(quarters, -0x1.4442d2p-24f, rest);
  rest = fmaf(quarters, 0x1.ee59dap-50f, rest);
  return {rest, int(__builtin_bit_cast(u32, shifted))};
}

/// The sine of an angle that was reduced.
KILN_DEVICE float sine(const Angle& angle) {
  const float r = angle.rest, square = r * r;
  float odd = fmaf(square, 0x1.6d436ap-19f, -0x1.a01218p-13f);
  odd = fmaf(odd, square, 0x1.11110cp-7f);
  odd = fmaf(odd, square, -0x1.555556p-3f);
  odd = fmaf(odd, square * r, r);
  float even = fmaf(square, 0x1.9b5a1cp-16f, -0x1.6c11dcp-10f);
  even = fmaf(even, square, 0x1.555554p-5f);
  even = fmaf(even, square, -0.5f);
  even = fmaf(even, square, 1.0f);
  const float wave = angle.quarters & 1 ? even : odd;
  return angle.quarters & 2 ? -wave : wave;
}
KILN_DEVICE float cosine(Angle angle) {
  ++angle.quarters;
  return sine(angle);
}

KILN_DEVICE Angle reduce_angle(float angle) {
  return fabsf(angle) <= 0x1p20f ? reduce_near_angle(angle) : reduce_far_angle(angle);
}
KILN_DEVICE float sine(float angle) {
  return sine(reduce_angle(angle));
}
KILN_DEVICE float cosine(float angle) {
  return cosine(reduce_angle(angle));
}
KILN_DEVICE float near_sine(float angle) {
  return sine(reduce_near_angle(angle));
}
KILN_DEVICE float near_cosine(float angle) {
  return cosine(reduce_near_angle(angle));
}

} // namespace kiln
