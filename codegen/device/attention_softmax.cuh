// The online softmax of a thread's two rows of scores, tile by tile of keys (Milakov, Gimelshein
// 2018), as accumulators of products hold them.
#pragma once

#include "mma.cuh"

namespace kiln {

/// Over the four lanes that share a row.
KILN_DEVICE float row_maximum(float value) {
  value = fmaxf(value, shuffle_xor(value, 1));
  return fmaxf(value, shuffle_xor(value, 2));
}
KILN_DEVICE float row_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

/// What makes powers of a row's exponents over a reference: 2^(exponent * factor - under).
struct Powers {
  float factor, under; // under: 0 where nothing is open yet
};
/// With a bias, exponents may be large (numbers that hide, as -1e9): fp32 has none near to a
/// reference beyond 2^29 whose power is more than nothing, but products are rounded by as much. A
/// power of two, over which the reference has 30 bits, makes the same powers and rounds nothing.
template <bool may_be_far> KILN_DEVICE Powers powers_over(float reference, float factor) {
  const float under = reference == -infinity() ? 0.0f : reference * factor;
  if constexpr (may_be_far)
    if (!(under > -0x1p29f && under < 0x1p29f)) {
      const u32 exponent = __builtin_bit_cast(u32, reference) & 0x7f800000u;
      const float exact = bits_to_float(((2 * 127u + 30) << 23) - exponent);
      return {exact, reference * exact};
    }
  return {factor, under};
}
/// The natural logarithm of the sum of a row's exponentials, from that of their powers.
template <bool has_bias>
KILN_DEVICE float logarithm_of(float reference, float factor, float total) {
  if constexpr (has_bias)
    return fmaf(log2_approximate(total), ln_2, reference * (factor * ln_2));
  else
    return fmaf(reference, factor, log2_approximate(total)) * ln_2;
}

/// Of the two rows of a thread: the exponent that its powers are over, and its own share of their
/// sum. It is the largest so far, or one that is less by at most a few, so that what was summed
/// seldom has to be scaled (Zadouri et al., FlashAttention-4, 2026).
template <bool has_bias> struct RunningSoftmax {
  float reference[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};

  /// Makes powers of exponents, times `factor`, below 2^`slack`. True for all threads of a warp if
  /// what was summed before is to be multiplied by `scaled`.
  template <int slack, int deep>
  KILN_DEVICE bool take(float (&x)[deep][4], float factor, float (&scaled)[2]) {
    float most[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r] = fmaxf(x[0][2 * r], x[0][2 * r + 1]);
#pragma unroll
      for (int n = 1; n < deep; ++n)
        most[r] = fmaxf(most[r], fmaxf(x[n][2 * r], x[n][2 * r + 1]));
      most[r] = row_maximum(most[r]);
    }
    // Where nothing is open yet the difference is not a number, and nothing is scaled.
    const bool is_scaled = any_lane((most[0] - reference[0]) * factor > float(slack) ||
                                    (most[1] - reference[1]) * factor > float(slack));
    if (is_scaled)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        most[r] = fmaxf(most[r], reference[r]);
        const Powers over = powers_over<has_bias>(most[r], factor);
        scaled[r] = exp2_approximate(fmaf(reference[r], over.factor, -over.under));
        reference[r] = most[r];
        sum[r] *= scaled[r];
      }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Powers over = powers_over<has_bias>(reference[r], factor);
      float total[2]; // two, so that fewer additions wait for each other
#pragma unroll
      for (int n = 0; n < deep; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& power = x[n][2 * r + i];
          power = exp2_approximate(fmaf(power, over.factor, -over.under));
          total[i] = n == 0 ? power : total[i] + power;
        }
      sum[r] += total[0] + total[1];
    }
    return is_scaled;
  }
  /// Divides by the sums; `lse`: the natural logarithm of a row's sum of exponentials.
  template <int wide>
  KILN_DEVICE void finish(float (&output)[wide][4], float factor, float (&lse)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = row_sum(sum[r]);
      // 0: no place is open. Else a sum is 1 or more, since it has its largest power.
      const float inverse = total == 0.0f ? 0.0f : reciprocal_approximate(total);
      lse[r] = total == 0.0f ? -infinity() : logarithm_of<has_bias>(reference[r], factor, total);
#pragma unroll
      for (int n = 0; n < wide; ++n) {
        output[n][2 * r] *= inverse;
        output[n][2 * r + 1] *= inverse;
      }
    }
  }
};

/// Powers of 2 that probabilities may exceed 1 by before they are divided. Kept ones are larger
/// already, and fp16 ends at 2^16.
template <class Scores> inline constexpr int powers_slack = Scores::has_dropout ? 0 : 8;

/// Multiplies each of the two rows of a thread.
template <int wide>
KILN_DEVICE void scale_rows(float (&values)[wide][4], const float (&factors)[2]) {
#pragma unroll
  for (int n = 0; n < wide; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[n][i] *= factors[i / 2];
}

} // namespace kiln
