// All gradients of attention in one kernel, by the five products that they need: a block has a tile
// of keys, of which warpgroups have 64 each, and walks over queries. Scores are transposed, a
// thread's rows are keys, so that probabilities and gradients of scores are operands as they are;
// the latter go through shared memory too, where the block multiplies them with its keys. That is
// its part of the gradients of queries, to which the blocks of a head add one after the other, in
// an order of keys: sums do not depend on who comes first, and a block waits for such only that
// have begun before it. The order of products within a tile follows Shah et al., FlashAttention-3
// (2024).
#pragma once

#include "attention_turns_walk.cuh"

namespace kiln {

//===- What loads, and what adds ------------------------------------------------------------===//

/// Loads a block's keys and values, and tile after tile its queries and what belongs to them.
template <class Tile, class Block>
KILN_DEVICE void load_turns(const TurnsMemory<Tile>& at, const Block& block, int shared_by,
                            const MappedHeads& query, const MappedHeads& key,
                            const MappedHeads& value, const MappedHeads& gradient,
                            const float* numbers) {
  const KeyRing<Tile> ring = at.ring();
  StagePhase<Tile::stages> now;
  WalkOfTurns walk(block, shared_by);
  key.template fetch<typename Tile::OwnKeys>(at.keys(), at.own_full(), walk.head,
                                             block.first_key());
  value.template fetch<typename Tile::OwnValues>(at.values(), at.own_full(), walk.head,
                                                 block.first_key());
#pragma unroll 1
  for (int i = 0; i < block.count * shared_by * Tile::of_turn; ++i, now.advance()) {
    const int tile = i % Tile::of_turn, row = first_query<Tile>(walk, tile);
    mbarrier_wait(ring.keys_free(now.stage), now.parity ^ 1);
    mbarrier_expect(ring.keys_full(now.stage), Tile::number_bytes);
    bulk_copy_to_shared(at.numbers(now.stage),
                        numbers + walk.number() * (2 * Tile::turn) + tile * (2 * Tile::queries),
                        Tile::number_bytes, ring.keys_full(now.stage));
    query.template fetch<typename Tile::Keys>(ring.keys(now.stage), ring.keys_full(now.stage),
                                              walk.head, row);
    gradient.template fetch<typename Tile::Values>(ring.values(now.stage),
                                                   ring.values_full(now.stage), walk.head, row);
    if (tile == Tile::of_turn - 1)
      walk.advance();
  }
}

/// Adds the block's parts that come to one of the slots.
template <class Tile, class Block>
KILN_DEVICE void add_turns(const TurnsMemory<Tile>& at, const Block& block, int shared_by, int slot,
                           float* sums, i32* turns) {
  int parity = 0, which = 0;
  WalkOfTurns walk(block, shared_by);
#pragma unroll 1
  for (int i = block.count * shared_by; i > 0; --i, walk.advance()) {
    const bool is_own = which == slot;
    which = which + 1 == Tile::slots ? 0 : which + 1;
    if (!is_own)
      continue;
    float* to = sums + walk.number() * (Tile::turn * Tile::width);
    i32* turn = turns + walk.number();
    mbarrier_wait(at.sums_full(slot), parity);
    const int before = block.adding_before(walk.turn());
    if (before == 0) {
      bulk_copy_to_global(to, at.sums(slot), Tile::sum_bytes);
    } else {
      wait_for_turn(turn, before);
      bulk_add_to_global(to, at.sums(slot), Tile::sum_bytes);
    }
    end_tile_stores();
    wait_for_tile_reads_but<0>();
    mbarrier_arrive(at.sums_free(slot));
    wait_for_tile_stores_but<0>();
    pass_turn(turn, before + 1);
    parity ^= 1;
  }
}

//===- What multiplies ----------------------------------------------------------------------===//

/// The first queries that see the thread's two keys; of keys that do not exist or are masked none
/// does. Later queries see what earlier ones do.
struct FirstQueries {
  static constexpr int none = 0x7fffffff;
  int of[2];

  template <class Scores> KILN_DEVICE FirstQueries(const Scores& scores, int row) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = row + 8 * r;
      of[r] = none;
      if (key < scores.all.sight.keys && !scores.hides(key)) {
        const Span seen = scores.all.sight.queries_of(key);
        of[r] = seen.begin < seen.end ? seen.begin : none;
      }
    }
  }
  /// Hides the queries from `first` on that do not see them.
  template <int deep> KILN_DEVICE void hide(float (&s)[deep][4], int first) const {
    if (any_lane(first < of[0] || first < of[1]))
#pragma unroll
      for (int n = 0; n < deep; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (first + 8 * n + lane_column() + i % 2 < of[i / 2])
            s[n][i] = -infinity();
  }
};
/// Makes probabilities of the products of transposed scores, hidden ones of which are -inf, with
/// queries whose logarithms of sums are `lse`, +inf of those that do not exist. `factor`: above 0.
template <int deep>
KILN_DEVICE void make_transposed_powers(float (&s)[deep][4], float factor, const float* lse) {
#pragma unroll
  for (int n = 0; n < deep; ++n) {
    const auto of_two = load_shared<Vec<float, 2>>(lse + 8 * n + lane_column());
#pragma unroll
    for (int i = 0; i < 4; ++i)
      s[n][i] = exp2_approximate(fmaf(s[n][i], factor, -of_two[i % 2]));
  }
}
/// Makes gradients of exponents of `dp`, from probabilities and deltas of queries.
template <int deep>
KILN_DEVICE void make_transposed_slopes(float (&dp)[deep][4], const float (&p)[deep][4],
                                        const float* delta) {
#pragma unroll
  for (int n = 0; n < deep; ++n) {
    const auto of_two = load_shared<Vec<float, 2>>(delta + 8 * n + lane_column());
#pragma unroll
    for (int i = 0; i < 4; ++i)
      dp[n][i] = p[n][i] * (dp[n][i] - of_two[i % 2]);
  }
}

/// A warpgroup's part of the gradients of a tile's queries.
template <class Tile> struct QueryPieces {
  static constexpr int columns = Tile::columns, wide = columns / 8;
  float dq[Tile::own_pieces][wide][4];

  /// Keeps the rounded gradients of scores, rows of which are keys.
  template <int steps> static KILN_DEVICE void keep(char* slopes, const u32 (&rounded)[steps][4]) {
    const int lane = thread_index() % 32, row = thread_index() / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < steps; ++k)
      store_matrices<false>(slopes + k / 4 * Tile::Slopes::panel_bytes + row * 128 +
                                ((k % 4 * 2 + lane / 16) ^ (lane % 8)) * 16,
                            rounded[k]);
  }
  /// Starts the products of all gradients of the tile's scores and the block's keys.
  KILN_DEVICE void start(const char* slopes, const char* keys) {
#pragma unroll
    for (int j = 0; j < Tile::own_pieces; ++j) {
      float(&flat)[columns / 2] = reinterpret_cast<float(&)[columns / 2]>(dq[j]);
      const int column = column_of(j);
      const auto a =
          mn_major<128>(slopes + rows_of(j) * Tile::Slopes::panel_bytes, Tile::Slopes::panel_bytes);
      const auto b =
          mn_major<128>(keys + column / 64 * Tile::OwnKeys::panel_bytes + column % 64 * 2,
                        Tile::OwnKeys::panel_bytes);
      pin(flat);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < Tile::keys / 16; ++k)
        wgmma<typename Tile::Element, columns, true, true>(flat, a + k * 16 * 128, b + k * 16 * 128,
                                                           k > 0);
    }
    wgmma_commit();
  }
  /// Hands those of the turn's `tile` to the warp that adds them.
  KILN_DEVICE void hand_over(const TurnsMemory<Tile>& at, const StagePhase<Tile::slots>& slot,
                             int tile) {
    if (tile == 0)
      mbarrier_wait(at.sums_free(slot.stage), slot.parity ^ 1);
    put(at.sums(slot.stage) + tile * (Tile::queries * Tile::width * int(sizeof(float))));
    bulk_copy_fence();
    warp_barrier();
    if (thread_index() % 32 == 0)
      mbarrier_arrive(at.sums_full(slot.stage));
  }

 private:
  /// Where a piece begins: which 64 queries, and which column.
  static KILN_DEVICE int piece(int j) { return thread_index() / 128 * Tile::own_pieces + j; }
  static KILN_DEVICE int rows_of(int j) { return piece(j) / (Tile::width / columns); }
  static KILN_DEVICE int column_of(int j) { return piece(j) % (Tile::width / columns) * columns; }
  /// As finish_turns finds them.
  KILN_DEVICE void put(char* sums) {
#pragma unroll
    for (int j = 0; j < Tile::own_pieces; ++j) {
      pin(reinterpret_cast<float(&)[columns / 2]>(dq[j]));
      char* to =
          sums +
          ((rows_of(j) * (Tile::width / 8) + column_of(j) / 8) * 128 + thread_index() % 128) * 16;
#pragma unroll
      for (int n = 0; n < wide; ++n)
        store_shared(to + n * 128 * 16,
                     Vec<float, 4>{{dq[j][n][0], dq[j][n][1], dq[j][n][2], dq[j][n][3]}});
    }
  }
};

/// What a warpgroup does with its 64 keys: their gradients over the scale, those of their values,
/// and its part of those of queries.
template <class Tile, class Block, class Scores>
KILN_DEVICE void take_turns(float (&dk)[Tile::width / 8][4], float (&dv)[Tile::value_width / 8][4],
                            const TurnsMemory<Tile>& at, const Block& block, int shared_by,
                            const Scores& scores) {
  using T = typename Tile::Element;
  const KeyRing<Tile> ring = at.ring();
  const int group_row = uniform(thread_index() / 128) * 64, row = block.first_key() + lane_row();
  const float factor = scores.scale * log2_e;
  const char* keys = at.keys() + group_row * Tile::OwnKeys::swizzle;
  const char* values = at.values() + group_row * Tile::OwnValues::swizzle;
  WalkOfTurns walk(block, shared_by);
  FirstQueries masked(scores.of(walk.head), row); // where there is a mask
#pragma unroll 1
  for (int i = 0; i < block.count * shared_by * Tile::of_turn; ++i) {
    const int tile = i % Tile::of_turn; // of its turn
    // Found anew, so that no registers hold them.
    const auto now = StagePhase<Tile::stages>::of(i);
    const auto slot = StagePhase<Tile::slots>::of(i / Tile::of_turn);
    float s[Tile::deep][4], dp[Tile::deep][4];
    u32 p[Tile::queries / 16][4], ds[Tile::queries / 16][4];
    const float* numbers = at.numbers(now.stage);
    mbarrier_wait(ring.keys_full(now.stage), now.parity);
    start_rows<T, typename Tile::OwnKeys, typename Tile::Keys, false>(s, keys,
                                                                      ring.keys(now.stage));
    mbarrier_wait(ring.values_full(now.stage), now.parity);
    start_rows<T, typename Tile::OwnValues, typename Tile::Values, false>(dp, values,
                                                                          ring.values(now.stage));
    if (Scores::has_mask && tile == 0 && walk.begins_head())
      masked = FirstQueries(scores.of(walk.head), row);
    wgmma_wait<1>();
    pin(reinterpret_cast<float(&)[Tile::queries / 2]>(s));
    const int first = first_query<Tile>(walk, tile);
    if (Scores::has_mask)
      masked.hide(s, first);
    else if (!block.is_seen_from(first))
      FirstQueries(scores.of(0), block.first_key() + lane_row()).hide(s, first);
    make_transposed_powers(s, factor, numbers);
    round_probabilities<T>(p, s);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::queries / 2]>(dp));
    make_transposed_slopes(dp, s, numbers + Tile::queries);
    round_probabilities<T>(ds, dp);
    start_accumulated<T, typename Tile::Values>(dv, p, ring.values(now.stage), true);
    char* kept = at.slopes(i % 2);
    QueryPieces<Tile> pieces;
    pieces.keep(kept, ds);
    bulk_copy_fence();
    group_barrier(1, Tile::loader); // all have kept theirs, and have read numbers
    pieces.start(kept, at.keys());
    start_accumulated<T, typename Tile::Keys>(dk, ds, ring.keys(now.stage), true);
    wgmma_wait<1>();
    pin(reinterpret_cast<float(&)[Tile::value_width / 2]>(dv));
    pieces.hand_over(at, slot, tile);
    wgmma_wait<0>();
    pin(reinterpret_cast<float(&)[Tile::width / 2]>(dk));
    if (thread_index() % 128 == 0)
      mbarrier_arrive(ring.keys_free(now.stage)); // and values, loaded with them
    if (tile == Tile::of_turn - 1)
      walk.advance();
  }
}

/// `heads`: of keys, each shared by `shared_by` of queries. `numbers`, `sums`, `turns`: of the
/// tiles of queries of all heads, as begin_turns and finish_turns have them. `loading` and
/// `working`: registers of a thread.
template <int loading, int working, class Tile, class Scores, class KeyGradient,
          class ValueGradient>
KILN_DEVICE void
differentiate_in_turns(Tile, char* memory, const Scores& scores, i64 heads, int shared_by,
                       const float* numbers, float* sums, i32* turns, const MappedHeads& query,
                       const MappedHeads& key, const MappedHeads& value,
                       const MappedHeads& gradient, const KeyGradient& key_gradient,
                       const ValueGradient& value_gradient) {
  const TurnsMemory<Tile> at{memory};
  if (thread_index() == Tile::loader) {
    at.initialize();
    mbarrier_fence();
  }
  block_barrier();
  const BlockOfTurns<Tile, decltype(scores.sight)> block(scores.sight, heads);
  const int warp = thread_index() / 32;
  if (thread_index() >= Tile::loader) {
    give_up_registers<loading>();
    if (thread_index() % 32 != 0)
      return;
    const int role = warp - Tile::loader / 32;
    if (role == 0)
      load_turns(at, block, shared_by, query, key, value, gradient, numbers);
    else if (role <= Tile::slots)
      add_turns(at, block, shared_by, role - 1, sums, turns);
    return;
  }
  take_registers<working>();
  float dk[Tile::width / 8][4] = {}, dv[Tile::value_width / 8][4] = {};
  mbarrier_wait(at.own_full(), 0);
  take_turns(dk, dv, at, block, shared_by, scores);
  group_barrier(1, Tile::loader); // nobody reads tiles any more
  using OutK = typename KeyGradient::Element;
  using OutV = typename ValueGradient::Element;
  char* own = memory + warp * larger_store_bytes<OutK, Tile::width, OutV, Tile::value_width>();
  const int row = block.first_key() + 16 * warp, left = int(scores.sight.keys) - row;
  scale_gradients(dk, scores.scale);
  store_rows<KeyGradient::access, Tile::width>(own, dk, key_gradient.row(block.head, row),
                                               key_gradient.stride, left);
  warp_barrier();
  store_rows<ValueGradient::access, Tile::value_width>(own, dv, value_gradient.row(block.head, row),
                                                       value_gradient.stride, left);
}

} // namespace kiln
