// All gradients of attention of narrow rows whose heads share a bias
// (attention_shared_bias_all.cuh), by products of warps: a block has 128 keys and two halves of all
// queries, in each of which a warp has 32 keys. Scores are transposed, a thread's rows are keys.
// The gradient of the bias is summed in registers, those of keys and values by both halves, and
// score gradients lie in shared memory, where the warps of a half multiply them with the block's
// keys.
#pragma once

#include "attention_shared_bias_narrow.cuh"

namespace kiln {

/// What a warp has of one head.
template <class Tile, class Start> struct NarrowHead {
  using T = typename Tile::Element;
  using Lanes = NarrowLanes<Tile>;
  const Start& start;
  u32 keys[2][2], more[2][2], values[2][2];
  float dk[2][4] = {}, dv[2][4] = {};
  const char* rows;           // where the lane reads of queries and gradients
  const float *lses, *deltas; // of the lane's columns
  char* slopes;               // where the lane writes
  u32 piece;                  // of 16 bytes, where the first of the lane's rows begins

  KILN_DEVICE NarrowHead(const Start& start, const char* own, const KeyRing<Tile>& ring, int stage,
                         const float* of_stage, char* slopes)
      : start(start) {
    const u32 lane = Lanes::lane();
    const u32 row = narrow_row(u32(Lanes::first_key()) + lane % 16);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      load_narrow_rows<T>(keys[m], more[m], own + row + m * 16 * 32, start.rest);
      load_matrices2<false>(values[m], own + Tile::Queries::bytes + row + m * 16 * 32);
    }
    // Matrices of two eights of queries, and the same of gradients.
    const u32 first = Lanes::half() * Tile::half;
    rows = (lane < 16 ? ring.keys(stage) : ring.values(stage)) + narrow_row(first + lane % 16);
    lses = of_stage + first + lane % 4 * 2;
    deltas = of_stage + Tile::keys + 2 * (first + lane % 4 * 2);
    this->slopes = slopes + (Lanes::first_key() + lane % 16) * 128;
    piece = (lane / 16 ^ lane % 8) * 16;
  }

  /// Of 16 queries. `sums`: of the bias's gradient.
  KILN_DEVICE void take(NarrowSums<Tile>& sums, int step, const HiddenKeys& hidden) {
    u32 of_rows[4];
    load_matrices<false>(of_rows, rows + step * 16 * 32);
    float s[2][2][4] = {}, dp[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        mma_shallow<T>(s[m][n], keys[m], of_rows[n]);
        mma_shallow<T>(s[m][n], more[m], of_rows[n]);
      }
      start.add_queries(s[m], m, step);
    }
    hidden.hide(s);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const auto lse = load_shared<Vec<float, 2>>(lses + 16 * step + 8 * n);
      const auto delta = load_shared<Vec<float, 4>>(deltas + 2 * (16 * step + 8 * n));
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          dp[m][n][i] = delta[i];
        mma_shallow<T>(dp[m][n], values[m], of_rows[2 + n]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& p = s[m][n][i];
          p = exp2_approximate(fmaf(p, start.factor, lse[i % 2]));
          dp[m][n][i] *= p;
        }
        sums.add(dp[m][n], m, 2 * step + n);
      }
    }
    u32 of_columns[4];
    load_matrices<true>(of_columns, rows + step * 16 * 32);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      mma<T>(dv[m], Operands<T>::of(s[m], 0).words, of_columns[2], of_columns[3]);
      const auto ds = Operands<T>::of(dp[m], 0);
      mma<T>(dk[m], ds.words, of_columns[0], of_columns[1]);
      store_matrices<false>(slopes + m * 16 * 128 + (piece ^ step % 4 * 32), ds.words);
    }
  }
};

/// Products of a half's score gradients and the block's keys: 16 of its queries.
template <class Tile>
KILN_DEVICE void multiply_narrow_slopes(float (&dq)[4], const char* slopes, const char* keys,
                                        int first) {
  using T = typename Tile::Element;
  const u32 lane = NarrowLanes<Tile>::lane();
  const char* of_lane =
      slopes + (lane / 16 * 8 + lane % 8) * 128 + ((first / 8 + lane / 8 % 2) ^ lane % 8) * 16;
  const char* rows = keys + narrow_row(lane);
  float other[4] = {};
#pragma unroll
  for (int k = 0; k < Tile::queries / 16; k += 2) {
    u32 a[4], b[4], more[4];
    load_matrices<true>(b, rows + k * 16 * 32);
    load_matrices<true>(a, of_lane + k * 16 * 128);
    load_matrices<true>(more, of_lane + (k + 1) * 16 * 128);
    mma<T>(dq, a, b[0], b[1]);
    mma<T>(other, more, b[2], b[3]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    dq[i] += other[i];
}

/// Stores a thread's two rows, `row` and `row` + 8, times `scale`.
template <class Rows>
KILN_DEVICE void store_narrow(const Rows& rows, u32 head, int row, i64 end, const float (&c)[4],
                              float scale) {
  auto* to = rows.row(head, row) + lane_column();
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (row + 8 * r < end)
      store_two<Rows>(to + 8 * r * rows.stride, c[2 * r] * scale, c[2 * r + 1] * scale);
}

/// Stores the gradients of 16 of the 64 queries of a half's phase, or hands them over to the block
/// that stores them. `turn`: phases before this one, over all heads.
template <class Tile, class Memory, class Rows>
KILN_DEVICE void finish_narrow_queries(const Memory& at, const char* keys, const Rows& rows,
                                       u32 head, i64 queries, float scale, int phase, int turn) {
  using Lanes = NarrowLanes<Tile>;
  const int half = Lanes::half(), place = turn % 2, parity = turn / 2 % 2;
  const bool stores = Tile::cluster == 1 || half == cluster_rank();
  const int first = Lanes::first_key() / 2; // each of the half's four warps has 16 queries
  float dq[4] = {};
  multiply_narrow_slopes<Tile>(dq, at.slopes(half), keys, first);
  if constexpr (Tile::cluster > 1) {
    char* handed = at.handed(place) + (first * 2 + int(Lanes::lane())) * 16;
    if (!stores) {
      mbarrier_wait_for_cluster(at.handed_free(place), parity ^ 1);
      store_to_block(handed, dq, at.handed_full(place), cluster_rank() ^ 1);
      return;
    }
    mbarrier_wait_for_cluster(at.handed_full(place), parity);
    const auto other = load_shared<Vec<float, 4>>(handed);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      dq[j] += other[j];
    if (thread_index() % 128 == 0)
      mbarrier_arrive_expecting(at.handed_full(place), Tile::hand_over_bytes / 2);
    warp_barrier();
    if (thread_index() % 32 == 0) // of whose warp all lanes have read
      mbarrier_arrive_in_block(at.handed_free(place), cluster_rank() ^ 1);
  }
  store_narrow(rows, head, half * Tile::half + phase * 64 + first + int(Lanes::lane()) / 4, queries,
               dq, scale);
}

/// Stores what a thread has summed of the bias's gradient.
template <class Tile, class Scores>
KILN_DEVICE void store_narrow_sums(float* partials, const NarrowSums<Tile>& sums,
                                   const Scores& scores, const BlockOfSharers& block, i64 biases) {
  using Lanes = NarrowLanes<Tile>;
  const i64 queries = scores.sight.queries, keys = scores.sight.keys;
  const int query = Lanes::half() * Tile::half + lane_column();
  const int key = block.first_row + Lanes::first_key() + int(Lanes::lane()) / 4;
  float* to = partials + ((block.group * biases + block.bias) * queries + query) * keys + key;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 2 * Tile::steps; ++n) {
      const auto four = sums.get(m, n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * m + i / 2 * 8, column = 8 * n + i % 2;
        if (key + row < keys && (Tile::keys <= queries || query + column < queries))
          store_global(to + column * keys + row, four[i]);
      }
    }
}

/// Of a warp's sums of keys and of values its half stores one, and hands the other to the other.
template <class Exchange, class Head>
KILN_DEVICE void hand_sums(const Exchange& exchange, const Head& head, float (&own)[2][4], int half,
                           int place) {
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    Vec<float, 4> other;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      other[i] = half == 0 ? head.dv[m][i] : head.dk[m][i];
      own[m][i] = half == 0 ? head.dk[m][i] : head.dv[m][i];
    }
    store_shared(exchange.part(place, half, m), other);
  }
}

/// The parameters are those of differentiate_all_sharing.
template <class BiasElement, int groups, int loading, int working, int bias_box, class Tile,
          class Scores, class Bias, class Lse, class Delta, class QueryGradient, class KeyGradient,
          class ValueGradient>
KILN_DEVICE void
differentiate_all_by_warps(Tile tile, char* memory, const Scores& scores, i64 biases, i64 sharing,
                           const MappedHeads& query, const MappedHeads& key,
                           const MappedHeads& value, const MappedHeads& gradient, const Bias& bias,
                           const Lse& lse, const Delta& delta, const QueryGradient& query_gradient,
                           const KeyGradient& key_gradient, const ValueGradient& value_gradient,
                           float* partials) {
  using Memory = SharedBiasMemory<Tile, 0>;
  using Lanes = NarrowLanes<Tile>;
  using Start = DiagonalBiasOfKeys<Tile, BiasElement>;
  const Memory at{memory};
  const NarrowExchange<Tile, Memory> exchange{at};
  const BlockOfSharers block(tile, scores, block_index(), biases, sharing, groups);
  const SeenTiles tiles = tiles_of<Tile>(scores, block);
  if (thread_index() == Tile::loader)
    exchange.initialize();
  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias, bias_box>(to, full, block.bias, 0, block.first_row);
  };
  if (has_loaded_sharers<loading>(tile, at, scores, block, tiles,
                                  Loads<OwnPair<Tile>, NarrowNumbersOfRows<Lse, Delta>>{
                                      {key, value}, query, gradient, {lse, delta}},
                                  fetch_bias))
    return;
  take_registers<working>();
  NarrowSums<Tile> sums(at.sums());
  int taken = 0; // heads
  const auto differentiate = [&](const auto&, u32 head, const auto&, const char* own, u64* own_free,
                                 int side, StagePhase<Tile::stages>& now,
                                 const Start& start) KILN_INLINE {
    const bool signals = thread_index() % 32 == 0;
    const KeyRing<Tile> ring = at.ring(side);
    const int half = Lanes::half(), parity = taken % 2;
    mbarrier_wait(ring.keys_full(now.stage), now.parity);
    mbarrier_wait(ring.values_full(now.stage), now.parity);
    NarrowHead<Tile, Start> one(start, own, ring, now.stage,
                                reinterpret_cast<const float*>(at.numbers(side, now.stage)),
                                at.slopes(half));
    const HiddenKeys hidden(tile, scores.of(head), block.first_row);
    float own_sums[2][4]; // that this half stores
#pragma unroll
    for (int phase = 0; phase < Tile::phases; ++phase) {
      const int turn = taken * Tile::phases + phase;
      mbarrier_wait(exchange.slopes_free(half), turn % 2 ^ 1);
#pragma unroll
      for (int step = 0; step < 4; ++step)
        one.take(sums, 4 * phase + step, hidden);
      const bool ends = phase + 1 == Tile::phases;
      if (ends)
        hand_sums(exchange, one, own_sums, half, parity);
      warp_barrier();
      if (signals && ends) {
        mbarrier_arrive(ring.keys_free(now.stage));
        mbarrier_arrive(ring.values_free(now.stage));
        mbarrier_arrive(exchange.parts_ready());
      }
      if (signals)
        mbarrier_arrive(exchange.slopes_ready(half));
      mbarrier_wait(exchange.slopes_ready(half), turn % 2);
      finish_narrow_queries<Tile>(at, own, query_gradient, head, scores.sight.queries, scores.scale,
                                  phase, turn);
      warp_barrier();
      if (signals)
        mbarrier_arrive(exchange.slopes_free(half));
    }
    now.advance();
    if (signals)
      mbarrier_arrive(own_free);
    mbarrier_wait(exchange.parts_ready(), parity);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const auto other = load_shared<Vec<float, 4>>(exchange.part(parity, half ^ 1, m));
      const int row = block.first_row + Lanes::first_key() + 16 * m + int(Lanes::lane()) / 4;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        own_sums[m][i] += other[i];
      if (half == 0)
        store_narrow(key_gradient, head, row, scores.sight.keys, own_sums[m], scores.scale);
      else
        store_narrow(value_gradient, head, row, scores.sight.keys, own_sums[m], 1.0f);
    }
    ++taken;
  };
  take_sharers<Start, working>(tile, at, scores, block, tiles, differentiate);
  store_narrow_sums<Tile>(partials, sums, scores, block, biases);
  if constexpr (Tile::cluster > 1)
    meet_blocks<Tile>(); // nobody reaches a block that has ended
}

} // namespace kiln
