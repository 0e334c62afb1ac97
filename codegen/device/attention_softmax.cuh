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

/// Of the two rows of a thread: the exponent that its powers are over, and its own share of their
/// sum. It is the largest so far, or one that is less by at most a few, so that what was summed
/// seldom has to be scaled (Zadouri et al., FlashAttention-4, 2026).
struct RunningSoftmax {
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
        scaled[r] = exp2_approximate(fmaf(reference[r], factor, -over(most[r], factor)));
        reference[r] = most[r];
        sum[r] *= scaled[r];
      }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float under = over(reference[r], factor);
      float total[2]; // two, so that fewer additions wait for each other
#pragma unroll
      for (int n = 0; n < deep; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& power = x[n][2 * r + i];
          power = exp2_approximate(fmaf(power, factor, -under));
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
      lse[r] =
          total == 0.0f ? -infinity() : fmaf(reference[r], factor, log2_approximate(total)) * ln_2;
#pragma unroll
      for (int n = 0; n < wide; ++n) {
        output[n][2 * r] *= inverse;
        output[n][2 * r + 1] *= inverse;
      }
    }
  }

  /// 0 where nothing is open yet.
  static KILN_DEVICE float over(float exponent, float factor) {
    return exponent == -infinity() ? 0.0f : exponent * factor;
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
