// Attention of narrow rows whose heads share a bias (attention_shared_bias.cuh), by products of
// warps: a warp has 16 queries and meets no other but at the ring of keys. Rows of 8 elements fill
// half of a product's depth, and products of warpgroups would spend as much time on the other half.
// The bias is one more product: that of a diagonal matrix and its tile, which takes neither
// conversions nor additions.
#pragma once

#include "attention_narrow_rows.cuh"
#include "attention_shared_bias.cuh"

namespace kiln {

/// A tile whose warps say by themselves that they have read something.
template <class T, int width, int value_width, int queries_, int keys_, int stages, int side,
          int slots, int held>
struct WarpsBiasTile : SharedBiasTile<T, width, value_width, queries_, keys_, stages, side, slots,
                                      held, false /*differentiates*/, false /*widens*/> {
  static constexpr bool is_crowded = true;
  static constexpr int groups = queries_ / 16, readers = groups;
  static constexpr int step = 32; // keys whose scores a warp has at a time
  static_assert(width == 8 && value_width == 8, "a row has half of a product's depth");
  static_assert(keys_ % step == 0, "whole steps make a tile");
};

/// A number to the nearest that T has, in the range of its normal ones: told when it is compiled.
template <class T> KILN_DEVICE float nearest_of(float value) {
  constexpr int bits = same_type<T, bf16> ? 16 : 13; // that T lacks
  const u32 word = __builtin_bit_cast(u32, value);
  return bits_to_float((word + (1u << (bits - 1)) - 1 + (word >> bits & 1)) >> bits << bits);
}

/// Makes -inf of a block's bias in shared memory the lowest number, whose products with the zeros
/// of a diagonal matrix are 0. That with its number, more than 1, is beyond fp32: -inf, or the
/// lowest number again. By all threads that compute.
template <class Tile> KILN_DEVICE void lower_infinities(char* bias) {
  auto* pieces = reinterpret_cast<Vec<u32, 4>*>(bias);
#pragma unroll 1
  for (int i = thread_index(); i < Tile::Bias::bytes / 16; i += Tile::loader) {
    auto words = load_shared<Vec<u32, 4>>(pieces + i);
    u32 found = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const u32 rest = words[j] ^ 0xff80ff80u; // a half of 0 borrows from its highest bit
      found |= (rest - 0x00010001u) & ~rest & 0x80008000u;
    }
    if (found == 0)
      continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      words[j] -= (words[j] & 0xffffu) == 0xff80u ? 1u : 0u;
      words[j] -= words[j] >> 16 == 0xff80u ? 0x10000u : 0u;
    }
    store_shared(pieces + i, words);
  }
  group_barrier(1, Tile::loader);
}

/// What makes a product of the bias, in bf16, with a diagonal matrix on its right: accumulators get
/// d times a score's logarithm of the natural base, where d is the inverse of the scale as the
/// bias's type has it. What d lacks of the inverse is made good by another product of queries and
/// keys, one of which is multiplied by the small `rest`.
template <class Element> struct BiasDiagonal {
  u32 diagonal; // (8, 8)
  float factor; // of accumulators, which makes exponents of them
  float rest;

  KILN_DEVICE explicit BiasDiagonal(float scale) {
    const float inverse = nearest_of<Element>(1.0f / scale);
    const int column = thread_index() % 32 / 4, row = thread_index() % 4 * 2;
    diagonal =
        pack_pair(Element{}, row == column ? inverse : 0.0f, row + 1 == column ? inverse : 0.0f);
    factor = log2_e / inverse;
    rest = fmaf(inverse, scale, -1.0f);
  }
  /// Adds (16, 8) of the bias.
  KILN_DEVICE void add(float (&s)[4], u32 upper, u32 lower) const {
    const u32 rows[] = {upper, lower};
    mma_shallow<Element>(s, rows, diagonal);
  }
};

/// The bias of a block's queries.
template <class Tile, class Element> struct DiagonalBias : BiasDiagonal<Element> {
  static constexpr bool adds = true;
  HeldBias<Tile, Element> held;
  char* bias;

  KILN_DEVICE DiagonalBias(char* bias, float scale)
      : BiasDiagonal<Element>(scale), held(bias, scale), bias(bias) {}
  KILN_DEVICE void prepare() const { lower_infinities<Tile>(bias); }

  /// Adds that of the keys from `first_key` on.
  template <int deep> KILN_DEVICE void add_keys(float (&s)[deep][4], int first_key) const {
    const char* panel = held.row + first_key / 64 * Tile::Bias::panel_bytes;
    const int first = first_key % 64 / 8; // of the panel's eights
#pragma unroll
    for (int n = 0; n < deep; n += 2) {
      u32 words[4];
      load_matrices<false>(words, panel + ((first + n) ^ held.piece) * 16);
      this->add(s[n], words[0], words[1]);
      this->add(s[n + 1], words[2], words[3]);
    }
  }
};

/// Where a row of 8 elements begins in a tile of rows of 32 bytes, as their swizzle has it.
KILN_DEVICE u32 narrow_row(u32 row) {
  return row * 32 + row / 4 % 2 * 16;
}

/// 16 rows, and the same times `rest`.
template <class T>
KILN_DEVICE void load_narrow_rows(u32 (&rows)[2], u32 (&more)[2], const char* of_lane, float rest) {
  load_matrices2<false>(rows, of_lane);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Vec<T, 2> pair = __builtin_bit_cast(Vec<T, 2>, rows[r]);
    more[r] = pack_pair(T{}, float(pair[0]) * rest, float(pair[1]) * rest);
  }
}

/// What of a tile's open keys a step has.
template <int count, int all>
KILN_DEVICE OpenKeys<count> open_of_step(const OpenKeys<all>& open, int step) {
  OpenKeys<count> part;
  part.all = true;
#pragma unroll
  for (int word = 0; word < part.words; ++word) {
    part.bits[word] = open.bits[word];
#pragma unroll
    for (int other = 1; other < all / count; ++other)
      if (step == other)
        part.bits[word] = open.bits[other * part.words + word];
    part.all &= part.bits[word] == ~0u;
  }
  return part;
}

/// The softmax of a thread's two rows over a reference that is found once, of the first keys, and
/// where that does not do for each step's.
struct ReferredSoftmax : RunningSoftmax<true> {
  /// Whether powers over the reference are none that numbers of T have, or nothing is open yet, or
  /// the reference is far from 0 (powers_over).
  template <class T> KILN_DEVICE bool is_beyond(float factor) const {
    constexpr float most = same_type<T, f16> ? 0x1p14f : 0x1p30f; // of a sum of a thread's
    const float far = 0x1p29f / factor;
    const auto is_near = [&](int r) { return reference[r] > -far && reference[r] < far; };
    return any_lane(sum[0] > most || sum[1] > most || !is_near(0) || !is_near(1));
  }
  /// Makes the largest of the exponents of the first `count` eights, times `factor`, the reference
  /// if it is larger.
  template <int count, int deep> KILN_DEVICE void refer(const float (&x)[deep][4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = fmaxf(x[0][2 * r], x[0][2 * r + 1]);
#pragma unroll
      for (int n = 1; n < count; ++n)
        most = fmaxf(most, fmaxf(x[n][2 * r], x[n][2 * r + 1]));
      reference[r] = fmaxf(row_maximum(most), reference[r]);
    }
  }
  /// Rows whose largest exponent is beyond fp32's numbers have no open place.
  KILN_DEVICE void close() {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (reference[r] < -0x1.fffffp127f)
        sum[r] = 0.0f;
  }
  /// Makes powers of exponents, and adds them up; `is_far`: also of references far from 0.
  template <bool is_far, int deep> KILN_DEVICE void raise(float (&x)[deep][4], float factor) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Powers over = powers_over<is_far>(reference[r], factor);
      float total = 0.0f; // two sums, so that fewer additions wait for each other
#pragma unroll
      for (int n = 0; n < deep; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& power = x[n][2 * r + i];
          power = exp2_approximate(fmaf(power, over.factor, -over.under));
          if (i == 0)
            sum[r] += power;
          else
            total = n == 0 ? power : total + power;
        }
      sum[r] += total;
    }
  }
};

/// Whether keys are a head's first, among which the reference is found.
struct FirstKeys {
  static constexpr bool value = true;
};
struct LaterKeys {
  static constexpr bool value = false;
};

/// What a warp does with the keys of a stage.
template <class Tile, class Scores, class Start, class Turn> struct NarrowStage {
  using T = typename Tile::Element;
  static constexpr int deep = Tile::step / 8, steps = Tile::keys / Tile::step;
  const Start& start;
  const Scores& scores;
  const Turn& turn;
  const OpenKeys<Tile::keys>& open;
  int first_key;
  const char *keys, *values; // where the lane reads
  const u32 (&queries)[4];

  KILN_DEVICE void score(float (&s)[deep][4], int step) const {
    const int first = step * Tile::step;
#pragma unroll
    for (int n = 0; n < deep; n += 2) {
      u32 words[4];
      load_matrices<false>(words, keys + (first + 8 * n) * 32);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[n + i][0] = s[n + i][1] = s[n + i][2] = s[n + i][3] = 0.0f;
        mma<T>(s[n + i], queries, words[2 * i], words[2 * i + 1]);
      }
    }
    start.add_keys(s, first_key + first);
    float slopes[deep][4];
    make_exponents<false>(s, slopes, scores, turn.row(), turn.seen, first_key + first,
                          open_of_step<Tile::step>(open, step), OpenPlaces<false, deep>());
  }
  KILN_DEVICE void accumulate(float (&o)[2][4], const float (&p)[deep][4], int step) const {
#pragma unroll
    for (int n = 0; n < deep / 2; n += 2) {
      u32 words[4];
      load_matrices<true>(words, values + (step * Tile::step + 16 * n) * 32);
#pragma unroll
      for (int k = 0; k < 2; ++k)
        mma<T>(o[k], Operands<T>::of(p, n + k).words, words[2 * k], words[2 * k + 1]);
    }
  }
  /// Over the reference that is there, or over the largest of some keys, if it `refers`.
  template <bool refers> KILN_DEVICE void attend(float (&o)[2][4], ReferredSoftmax& softmax) const {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      float s[deep][4];
      score(s, step);
      if (refers && step == 0)
        softmax.refer<4>(s);
      softmax.template raise<false>(s, start.factor);
      accumulate(o, s, step);
    }
  }
  /// Over the largest exponent so far.
  KILN_DEVICE void attend_running(float (&o)[2][4], ReferredSoftmax& softmax) const {
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      float s[deep][4], scaled[2];
      score(s, step);
      const float before[2] = {softmax.reference[0], softmax.reference[1]};
      softmax.refer<deep>(s);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const Powers over = powers_over<true>(softmax.reference[r], start.factor);
        scaled[r] = exp2_approximate(fmaf(before[r], over.factor, -over.under));
        softmax.sum[r] *= scaled[r];
      }
      scale_rows(o, scaled);
      softmax.template raise<true>(s, start.factor);
      accumulate(o, s, step);
    }
  }
};

/// attend_sharing by products of warps.
template <class BiasElement, int groups, int loading, int working, class Tile, class Scores,
          class Bias, class Output, class Lse>
KILN_DEVICE void attend_sharing_by_warps(Tile tile, char* memory, const Scores& scores, i64 biases,
                                         i64 sharing, const MappedHeads& query,
                                         const MappedHeads& key, const MappedHeads& value,
                                         const Bias& bias, const Output& output, const Lse& lse) {
  using T = typename Tile::Element;
  const SharedBiasMemory<Tile, 0> at{memory};
  const BlockOfSharers block(tile, scores, block_index(), biases, sharing, groups);
  const SeenTiles tiles = tiles_of<Tile>(scores, block);
  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias>(to, full, block.bias, block.first_row);
  };
  if (has_loaded_sharers<loading>(tile, at, scores, block, tiles,
                                  Loads<OwnQueries<Tile>, NoNumbers>{{query}, key, value, {}},
                                  fetch_bias))
    return;
  const int row = block.first_row + RowsOfWarp<Tile>::thread_row();
  const u32 lane_of_queries =
      narrow_row(RowsOfWarp<Tile>::row_in_tile() + u32(thread_index()) % 16);
  const u32 lane_of_values = narrow_row(u32(thread_index()) % 32);
  // Of keys eight rows twice: beside queries lie what is to be multiplied by the same keys.
  const u32 lane_of_keys = narrow_row(u32(thread_index()) % 32 / 16 * 8 + u32(thread_index()) % 8);
  const auto outputs = sharers_rows(output, block.head, sharing, row);
  const SharersRows logs(lse, block.head, sharing, row);
  const auto attend = [&](const auto& turn, u32 head, LaneOfMask<Tile::keys> lane, const char* own,
                          u64* own_free, int side, StagePhase<Tile::stages>& now,
                          const auto& start) {
    const bool signals = thread_index() % 32 == 0;
    const KeyRing<Tile> ring = at.ring(side);
    const auto of_head = scores.of(head);
    ReferredSoftmax softmax;
    float o[2][4] = {}; // sums of every other 16 keys
    u32 queries[4];
    if (turn.tiles.count > 0) {
      u32 rows[2], more[2];
      load_narrow_rows<T>(rows, more, own + lane_of_queries, start.rest);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        queries[r] = rows[r];
        queries[2 + r] = more[r];
      }
      warp_barrier();
      if (signals)
        mbarrier_arrive(own_free);
    }
    const auto take = [&](int first_key, auto which) {
      constexpr bool refers = decltype(which)::value;
      const OpenKeys<Tile::keys> open = open_keys(of_head, lane);
      if (first_key + Tile::keys < turn.tiles.first + turn.tiles.count * Tile::keys)
        lane = read_mask<Tile::keys>(of_head, first_key + Tile::keys);
      mbarrier_wait(ring.keys_full(now.stage), now.parity);
      mbarrier_wait(ring.values_full(now.stage), now.parity);
      const NarrowStage<Tile, decltype(of_head), decltype(start), decltype(turn)> stage{
          start,
          of_head,
          turn,
          open,
          first_key,
          ring.keys(now.stage) + lane_of_keys,
          ring.values(now.stage) + lane_of_values,
          queries};
      const ReferredSoftmax before = softmax;
      const float sums[2][4] = {{o[0][0], o[0][1], o[0][2], o[0][3]},
                                {o[1][0], o[1][1], o[1][2], o[1][3]}};
      stage.template attend<refers>(o, softmax);
      if (softmax.template is_beyond<T>(start.factor)) {
        softmax = before;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          o[i / 4][i % 4] = sums[i / 4][i % 4];
        stage.attend_running(o, softmax);
      }
      warp_barrier();
      if (signals) {
        mbarrier_arrive(ring.keys_free(now.stage));
        mbarrier_arrive(ring.values_free(now.stage));
      }
      now.advance();
    };
    if (turn.tiles.count > 0)
      take(turn.tiles.first, FirstKeys());
#pragma unroll 1
    for (int i = 1; i < turn.tiles.count; ++i)
      take(turn.tiles.first + i * Tile::keys, LaterKeys());
#pragma unroll
    for (int i = 0; i < 4; ++i)
      o[0][i] += o[1][i];
    float(&sums)[1][4] = reinterpret_cast<float(&)[1][4]>(o);
    float of_rows[2];
    softmax.close();
    softmax.finish(sums, start.factor, of_rows);
    const auto to = outputs.at(head);
    float* log = logs.of(head);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + 8 * r >= scores.sight.queries)
        continue;
      if (thread_index() % 4 == 0)
        store_global(log + 8 * r * lse.stride, of_rows[r]);
      to.two(8 * r, sums[0][2 * r], sums[0][2 * r + 1]);
    }
  };
  take_sharers<DiagonalBias<Tile, BiasElement>, working>(tile, at, scores, block, tiles, attend);
}

} // namespace kiln
