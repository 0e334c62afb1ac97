// The gradients of queries and of the bias of heads that share a bias, which blocks hold
// (attention_shared_bias.cuh). Of a tile of keys the products with queries and with the output's
// gradient run beside that of the tile before, whose scores' gradients are rounded by then. The
// bias's gradient is summed in registers over the heads of a group, of one tile of keys.
#pragma once

#include "attention_bias_gradient.cuh"
#include "attention_shared_bias.cuh"

namespace kiln {

/// What a warpgroup does with one head: the gradient of its 64 queries over the scale.
template <class Tile, class Scores, class Start, class Turn>
KILN_DEVICE void differentiate_head(float (&dq)[Tile::width / 8][4], const KeyRing<Tile>& ring,
                                    StagePhase<Tile::stages>& now, const char* queries,
                                    const char* gradients, const Start& start, const Scores& scores,
                                    LaneOfMask<Tile::keys> lane, const QueryNumbers (&numbers)[2],
                                    const Turn& turn) {
  using T = typename Tile::Element;
  const bool signals = thread_index() % 128 == 0;
  float s[Tile::deep][4], slopes[Tile::deep][4], dp[Tile::deep][4];
  u32 ds[Tile::keys / 16][4];
  StagePhase<Tile::stages> before = now;
  OpenKeys<Tile::keys> open;
  OpenPlaces<false, Tile::deep> places;
  const auto begin = [&](int tile) {
    const int key = turn.tiles.first + tile * Tile::keys;
    start.begin(s, key);
    open = open_keys(scores, lane);
    lane = read_mask<Tile::keys>(scores, key + Tile::keys);
    start_scores<Tile, Start::adds>(s, dp, ring, now, queries, gradients);
    take_places(places, scores, turn.row(), key + Tile::keys);
  };
  const auto take = [&](int tile) {
    const int key = turn.tiles.first + tile * Tile::keys;
    make_exponents<false>(s, slopes, scores, turn.row(), turn.seen, key, open, places);
    make_score_gradients(dp, s, scores, numbers, turn.row(), key);
  };
  if (turn.tiles.count == 0)
    return;
  fetch_places(places, scores, turn.row(), turn.tiles.first);
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
          class Bias, class Lse, class Delta, class QueryGradient>
KILN_DEVICE void differentiate_queries_sharing(Tile tile, char* memory, const Scores& scores,
                                               i64 biases, i64 sharing, const MappedHeads& query,
                                               const MappedHeads& key, const MappedHeads& value,
                                               const MappedHeads& gradient, const Bias& bias,
                                               const Lse& lse, const Delta& delta,
                                               const QueryGradient& query_gradient) {
  const SharedBiasMemory<Tile, store_bytes<typename QueryGradient::Element, Tile::row_width>()> at{
      memory};
  const BlockOfSharers block(tile, scores, block_index(), biases, sharing, groups);
  const SeenTiles tiles = tiles_of<Tile>(scores, block);
  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias>(to, full, block.bias, block.first_row);
  };
  if (has_loaded_sharers<loading>(
          tile, at, scores, block, tiles,
          Loads<OwnPair<Tile>, NoNumbers>{{query, gradient}, key, value, {}}, fetch_bias))
    return;
  const int end = int(scores.sight.queries);
  const auto differentiate = [&](const auto& turn, u32 head, const LaneOfMask<Tile::keys>& lane,
                                 const char* own, u64* own_free, int side,
                                 StagePhase<Tile::stages>& now, const auto& start) {
    const QueryNumbers numbers[2] = {
        numbers_of<Tile::has_bias()>(lse, delta, head, turn.row(), end),
        numbers_of<Tile::has_bias()>(lse, delta, head, turn.row() + 8, end)};
    float dq[Tile::width / 8][4] = {};
    const int group_row = turn.group_row();
    differentiate_head<Tile>(dq, at.ring(side), now, own + group_row * Tile::Queries::swizzle,
                             own + Tile::Queries::bytes + group_row * Tile::Gradients::swizzle,
                             start, scores.of(head), lane, numbers, turn);
    if (thread_index() % 128 == 0)
      mbarrier_arrive(own_free);
    scale_gradients(dq, scores.scale);
    store_rows<QueryGradient::access, Tile::row_width>(
        at.stored_by(turn.warp()), dq, query_gradient.row(head, turn.first_row()),
        query_gradient.stride, end - turn.first_row());
  };
  take_sharers<BiasOfQueries<Tile, BiasElement>, working>(tile, at, scores, block, tiles,
                                                          differentiate);
}

/// The gradient of the bias, of whose groups of heads each has `Tile::side` sums: `partials`
/// (groups x side, biases, queries, keys), fp32. A block has a tile of keys too, which come first
/// in the grid.
template <class BiasElement, int groups, int loading, int working, class Tile, class Scores,
          class Lse, class Delta>
KILN_DEVICE void differentiate_bias_sharing(Tile tile, char* memory, const Scores& scores,
                                            i64 biases, i64 sharing, const MappedHeads& query,
                                            const MappedHeads& key, const MappedHeads& value,
                                            const MappedHeads& gradient, const MappedHeads& bias,
                                            const Lse& lse, const Delta& delta, float* partials) {
  const SharedBiasMemory<Tile, 0> at{memory};
  const i64 all_queries = scores.sight.queries, all_keys = scores.sight.keys;
  const i64 key_tiles = (all_keys + Tile::keys - 1) / Tile::keys;
  const BlockOfSharers block(tile, scores, block_index() / key_tiles, biases, sharing, groups);
  const int first_key = int(block_index() % key_tiles) * Tile::keys;
  SeenTiles tiles = tiles_of<Tile>(scores, block);
  const bool is_seen =
      tiles.first <= first_key && first_key < tiles.first + tiles.count * Tile::keys;
  tiles = {tiles.span, first_key, is_seen ? 1 : 0};

  const auto fetch_bias = [&](char* to, u64* full) {
    bias.template fetch<typename Tile::Bias>(to, full, block.bias, block.first_row, first_key);
  };
  if (has_loaded_sharers<loading>(
          tile, at, scores, block, tiles,
          Loads<OwnPair<Tile>, NoNumbers>{{query, gradient}, key, value, {}}, fetch_bias))
    return;

  float sums[Tile::deep][4] = {};
  const auto add = [&](const auto& turn, u32 head, const LaneOfMask<Tile::keys>& lane,
                       const char* own, u64* own_free, int side, StagePhase<Tile::stages>& now,
                       const auto& start) {
    if (turn.tiles.count == 0)
      return;
    const QueryNumbers numbers[2] = {
        numbers_of<Tile::has_bias()>(lse, delta, head, turn.row(), int(all_queries)),
        numbers_of<Tile::has_bias()>(lse, delta, head, turn.row() + 8, int(all_queries))};
    const auto of_head = scores.of(head);
    const KeyRing<Tile> ring = at.ring(side);
    const int group_row = turn.group_row();
    float s[Tile::deep][4], slopes[Tile::deep][4], dp[Tile::deep][4];
    OpenPlaces<false, Tile::deep> places;
    fetch_places(places, of_head, turn.row(), first_key);
    start.begin(s, 0); // the block holds the bias of its keys
    start_scores<Tile, true>(s, dp, ring, now, own + group_row * Tile::Queries::swizzle,
                             own + Tile::Queries::bytes + group_row * Tile::Gradients::swizzle);
    take_places(places, of_head);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(s));
    pin(reinterpret_cast<float(&)[Tile::keys / 2]>(dp));
    if (thread_index() % 128 == 0) {
      mbarrier_arrive(ring.keys_free(now.stage));
      mbarrier_arrive(ring.values_free(now.stage));
      mbarrier_arrive(own_free);
    }
    now.advance();
    make_exponents<false>(s, slopes, of_head, turn.row(), turn.seen, first_key,
                          open_keys(of_head, lane), places);
    make_score_gradients(dp, s, of_head, numbers, turn.row(), first_key);
#pragma unroll
    for (int n = 0; n < Tile::deep; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums[n][i] += dp[n][i];
  };
  take_sharers<HeldBias<Tile, BiasElement>, working>(tile, at, scores, block, tiles, add);
  const int side = RowsOfWarp<Tile>::side();
  const int row = block.first_row + RowsOfWarp<Tile>::thread_row();
  const i64 which = (i64(block.group) * Tile::side + side) * biases + block.bias;
  store_sums(partials + which * all_queries * all_keys, sums, row, first_key, all_queries,
             all_keys);
}

} // namespace kiln
