// The gradient of queries of heads that share a bias, which blocks hold
// (attention_shared_bias.cuh). Of a tile of keys the products with queries and with the output's
// gradient run beside that of the tile before, whose scores' gradients are rounded by then.
#pragma once

#include "attention_backward.cuh"
#include "attention_shared_bias.cuh"

namespace kiln {

/// What a warpgroup does with one head: the gradient of its 64 queries over the scale.
template <class Tile, class Scores, class Start>
KILN_DEVICE void differentiate_head(float (&dq)[Tile::width / 8][4], const KeyRing<Tile>& ring,
                                    StagePhase<Tile::stages>& now, const char* queries,
                                    const char* gradients, const Start& start, const Scores& scores,
                                    LaneOfMask<Tile::keys> lane, const QueryNumbers (&numbers)[2],
                                    const SharersTurn<Tile>& turn) {
  using T = typename Tile::Element;
  const bool signals = thread_index() % 128 == 0;
  float s[Tile::deep][4], slopes[Tile::deep][4], dp[Tile::deep][4];
  u32 ds[Tile::keys / 16][4];
  StagePhase<Tile::stages> before = now;
  OpenKeys<Tile::keys> open;
  const auto begin = [&](int tile) {
    const int key = turn.tiles.first + tile * Tile::keys;
    start.begin(s, key);
    open = open_keys(scores, lane);
    lane = read_mask<Tile::keys>(scores, key + Tile::keys);
    mbarrier_wait(ring.keys_full(now.stage), now.parity);
    start_rows<T, typename Tile::Queries, typename Tile::Keys, Start::adds>(s, queries,
                                                                            ring.keys(now.stage));
    mbarrier_wait(ring.values_full(now.stage), now.parity);
    start_rows<T, typename Tile::Gradients, typename Tile::Values, false>(dp, gradients,
                                                                          ring.values(now.stage));
  };
  const auto take = [&](int tile) {
    const int key = turn.tiles.first + tile * Tile::keys;
    make_exponents<false>(s, slopes, scores, turn.row(), turn.seen, key, open);
    make_score_gradients(dp, s, scores, numbers, turn.row(), key);
  };
  if (turn.tiles.count == 0)
    return;
  begin(0);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
  pin(reinterpret_cast<float(&)[Tile::keys / 2]>(dp));
  if (signals)
    mbarrier_arrive(ring.values_free(now.stage));
  take(0);
  round_probabilities<T>(ds, dp);
  now.advance();
#pragma unroll 1
  for (int tile = 1; tile < turn.tiles.count; ++tile) {
    begin(tile);
    start_accumulated<T, typename Tile::Keys>(dq, ds, ring.keys(before.stage), tile > 1);
    wgmma_wait<1>();
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(dp));
    if (signals)
      mbarrier_arrive(ring.values_free(now.stage));
    take(tile);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::width / 2]>(dq));
    if (signals)
      mbarrier_arrive(ring.keys_free(before.stage));
    round_probabilities<T>(ds, dp);
    now.advance();
    before.advance();
  }
  start_accumulated<T, typename Tile::Keys>(dq, ds, ring.keys(before.stage), turn.tiles.count > 1);
  wgmma_wait<0>();
  pin(reinterpret_cast<float(&)[Tile::width / 2]>(dq));
  if (signals)
    mbarrier_arrive(ring.keys_free(before.stage));
}

template <class BiasElement, int groups, int loading, int working, class Tile, class Scores,
          class Lse, class Delta, class QueryGradient>
KILN_DEVICE void differentiate_queries_sharing(Tile tile, char* memory, const Scores& scores,
                                               i64 biases, i64 sharing, const MappedHeads& query,
                                               const MappedHeads& key, const MappedHeads& value,
                                               const MappedHeads& gradient, const MappedHeads& bias,
                                               const Lse& lse, const Delta& delta,
                                               const QueryGradient& query_gradient) {
  const SharedBiasMemory<Tile, typename QueryGradient::Element> at{memory};
  const BlockOfSharers block(scores.sight.queries, Tile::queries, biases, sharing, groups);
  const int end = int(scores.sight.queries);
  const auto differentiate = [&](const SharersTurn<Tile>& turn, u32 head,
                                 const LaneOfMask<Tile::keys>& lane, const char* own, u64* own_free,
                                 const KeyRing<Tile>& ring, StagePhase<Tile::stages>& now,
                                 const auto& start) {
    const QueryNumbers numbers[2] = {numbers_of(lse, delta, head, turn.row(), end),
                                     numbers_of(lse, delta, head, turn.row() + 8, end)};
    float dq[Tile::width / 8][4] = {};
    const int group_row = turn.group_row();
    differentiate_head<Tile>(dq, ring, now, own + group_row * Tile::Queries::swizzle,
                             own + Tile::Queries::bytes + group_row * Tile::Gradients::swizzle,
                             start, scores.of(head), lane, numbers, turn);
    if (thread_index() % 128 == 0)
      mbarrier_arrive(own_free);
#pragma unroll
    for (int n = 0; n < Tile::width / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        dq[n][i] *= scores.scale;
    store_rows<QueryGradient::access, Tile::width>(at.stored_by(turn.warp()), dq,
                                                   query_gradient.row(head, turn.first_row()),
                                                   query_gradient.stride, end - turn.first_row());
  };
  take_sharers<BiasElement, loading, working>(tile, at, scores, block,
                                              OwnQueriesAndGradients<Tile>{query, gradient}, key,
                                              value, bias, differentiate);
}

} // namespace kiln
