// All gradients of attention whose heads share a bias (attention_shared_bias_keys.cuh), where few
// blocks have all keys: one, or the two or three of a cluster. Score gradients of 64 queries lie in
// shared memory, where one warpgroup multiplies them with the block's keys. Of several blocks each
// has a part of the queries: it begins with the others', whose gradients it hands over while it
// goes on. Of many queries kernels one after the other have some each.
#pragma once

#include "attention_shared_bias_keys.cuh"

namespace kiln {

template <class T, int width, int value_width, int queries, int keys, int stages, int side,
          int slots, int held, int tiles>
using SharedBiasAllSums = SharedBiasSumTile<T, width, value_width, queries, keys, stages, side,
                                            slots, held, tiles, 80 /*registers*/>;
/// `tiles_`: of queries, whole groups of 64. `blocks`: of a cluster.
template <class T, int width_, int value_width, int queries, int keys, int stages, int side,
          int slots, int held, int tiles_, int blocks>
struct SharedBiasAllTile
    : SharedBiasAllSums<T, width_, value_width, queries, keys, stages, side, slots, held, tiles_> {
  using Sums =
      SharedBiasAllSums<T, width_, value_width, queries, keys, stages, side, slots, held, tiles_>;
  static constexpr bool is_crowded = true;
  static constexpr bool begins_ahead = true;
  static constexpr int of_group = 64 / queries; // tiles
  static constexpr int query_groups = tiles_ / of_group;
  static constexpr int cluster = blocks;
  static constexpr int first_half =
      (query_groups + 1) / 2;            // groups that the first of two blocks has
  using Slopes = SwizzledTile<keys, 64>; // a row for each key
  static constexpr int slope_bytes = 2 * Slopes::bytes;
  static constexpr int hand_over_bytes = blocks > 1 ? 2 * 64 * Sums::width* int(sizeof(float)) : 0;
  static_assert(64 % queries == 0 && tiles_ % of_group == 0, "whole groups of 64 queries");
  static_assert(blocks == 1 || (blocks == 2 && query_groups <= 4) ||
                    (blocks == 3 && query_groups <= 3),
                "two groups a block at most, or one of three blocks");
  static_assert(side == 1, "warpgroups take turns with the queries of one head");

  /// The group of 64 queries that a block comes to in this step.
  static KILN_DEVICE int group_of(int step) {
    if constexpr (blocks == 1)
      return step;
    if constexpr (blocks == 3)
      return (cluster_rank() + 1 + step) % query_groups;
    const int group = step + (cluster_rank() == 0 ? first_half : 0);
    return group < query_groups ? group : group - query_groups;
  }
  static KILN_DEVICE bool has_group(int group) {
    if constexpr (blocks == 3)
      return group == cluster_rank();
    return blocks == 1 || (group < first_half) == (cluster_rank() == 0);
  }
  /// The first query of the block's step-th tile: all are seen.
  static KILN_DEVICE int row_of(const SeenTiles&, int step) {
    return group_of(step / of_group) * 64 + step % of_group * queries;
  }
};

/// That of a kernel which has some of the queries, from `first` on.
template <class T, int width, int value_width, int queries, int keys, int stages, int side,
          int slots, int held, int tiles, int blocks, int first>
struct SharedBiasPartTile : SharedBiasAllTile<T, width, value_width, queries, keys, stages, side,
                                              slots, held, tiles, blocks> {
  using Whole = SharedBiasAllTile<T, width, value_width, queries, keys, stages, side, slots, held,
                                  tiles, blocks>;
  static constexpr int first_query = first;
  static KILN_DEVICE int row_of(const SeenTiles& seen, int step) {
    return first + Whole::row_of(seen, step);
  }
};

/// Where kernels one after the other have some of the queries each: the sums of keys and values
/// that one leaves, in the order of a block's threads, are what the next resumes with.
template <class Tile, bool resumes_, bool leaves_> struct KeysInParts {
  static constexpr bool resumes = resumes_, leaves = leaves_;
  float* sums; // (heads, blocks of a head, a thread's vectors, threads, 4)

  template <int wide, int value_wide>
  KILN_DEVICE void resume(float (&dk)[wide][4], float (&dv)[value_wide][4], u32 head,
                          int first_row) const {
    const auto* from = of_thread<wide + value_wide>(head, first_row);
#pragma unroll
    for (int n = 0; n < wide + value_wide; ++n) {
      const auto four = load_global<Vec<float, 4>>(from + n * Tile::loader);
      float* to = n < wide ? dk[n] : dv[n - wide];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[i] = four[i];
    }
  }
  template <int wide, int value_wide>
  KILN_DEVICE void leave(const float (&dk)[wide][4], const float (&dv)[value_wide][4], u32 head,
                         int first_row) const {
    auto* to = of_thread<wide + value_wide>(head, first_row);
#pragma unroll
    for (int n = 0; n < wide + value_wide; ++n) {
      const float* from = n < wide ? dk[n] : dv[n - wide];
      Vec<float, 4> four;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        four[i] = from[i];
      store_global(to + n * Tile::loader, four);
    }
  }

 private:
  template <int vectors> KILN_DEVICE Vec<float, 4>* of_thread(u32 head, int first_row) const {
    const i64 block = i64(head) * Tile::cluster + first_row / Tile::queries;
    return reinterpret_cast<Vec<float, 4>*>(sums) + block * vectors * Tile::loader + thread_index();
  }
};

/// How a block hands over a group: to whom, to which of the two places in its memory, and which of
/// its own barriers tells that the place is free. Of two blocks groups have places, of three
/// whoever hands over.
template <class Tile> struct HandingOver {
  static KILN_DEVICE int distance(int group) { return (group - cluster_rank() + 3) % 3; }
  static KILN_DEVICE int other(int group) {
    return Tile::cluster == 3 ? group : cluster_rank() ^ 1;
  }
  static KILN_DEVICE int place(int group) {
    return Tile::cluster == 3 ? 2 - distance(group) : group % 2;
  }
  static KILN_DEVICE int free(int group) {
    return Tile::cluster == 3 ? distance(group) - 1 : group % 2;
  }
};
/// The same of whom the i-th of the others hands it over to: `free` is that block's barrier.
template <class Tile> struct HandedOver {
  static KILN_DEVICE int other(int i) {
    return Tile::cluster == 3 ? (cluster_rank() + 1 + i) % 3 : cluster_rank() ^ 1;
  }
  static KILN_DEVICE int place(int group, int i) { return Tile::cluster == 3 ? i : group % 2; }
  static KILN_DEVICE int free(int group, int i) { return Tile::cluster == 3 ? 1 - i : group % 2; }
};

template <class Tile, class OutQ, class OutK, class OutV>
KILN_DEVICE constexpr int shared_bias_all_store() {
  constexpr int of_keys = shared_bias_key_store<Tile, OutK, OutV>();
  constexpr int of_queries = store_bytes<OutQ, Tile::row_width>();
  return of_keys > of_queries ? of_keys : of_queries;
}
template <class Tile, class OutQ, class OutK, class OutV>
KILN_DEVICE constexpr int shared_bias_all_bytes() {
  return SharedBiasMemory<Tile, shared_bias_all_store<Tile, OutQ, OutK, OutV>()>::bytes;
}

/// What a block adds to the gradients of queries.
template <class Tile, class Memory, class Out> struct QueryGradients {
  using T = typename Tile::Element;
  Memory at;
  const Out& out;
  float scale;
  int queries;      // how many there are
  u32 head = 0;     // that is taken
  const char* keys; // of this head
  int turn = 0;     // of its first group: groups alternate through heads

  KILN_DEVICE QueryGradients(const Memory& at, const Out& out, float scale, int queries)
      : at(at), out(out), scale(scale), queries(queries), keys(nullptr) {}
  static KILN_DEVICE int count(int) { return Tile::tiles; }
  KILN_DEVICE void begin(u32 next, const char* own) {
    head = next;
    keys = own;
  }
  KILN_DEVICE void end() { turn ^= Tile::query_groups % 2; }

  /// Keeps the rounded gradients of a tile's scores, rows of which are keys.
  template <int steps> KILN_DEVICE void keep(const u32 (&slopes)[steps][4], int tile) const {
    const int lane = thread_index() % 32;
    const int row = RowsOfWarp<Tile>::row_in_tile() + lane % 16;
    char* to = at.slopes(turn_of(tile / Tile::of_group)) + row * 128;
    const int first = tile % Tile::of_group * steps * 2; // in pieces of 8 queries
#pragma unroll
    for (int k = 0; k < steps; ++k)
      store_matrices<false>(to + ((first + 2 * k + lane / 16) ^ (lane % 8)) * 16, slopes[k]);
    if ((tile + 1) % Tile::of_group == 0)
      bulk_copy_fence();
  }

  /// At the end of a group all warps meet, and the warpgroup whose turn it is makes its gradients.
  /// One half of the memory is then read while the other is written.
  KILN_DEVICE void finish(int tile) {
    if ((tile + 1) % Tile::of_group != 0)
      return;
    group_barrier(1, Tile::loader);
    const int step = tile / Tile::of_group, group = Tile::group_of(step);
    if (RowsOfWarp<Tile>::row_in_tile() / 64 != turn_of(step) % Tile::groups)
      return;
    float dq[Tile::width / 8][4];
    multiply(dq, at.slopes(turn_of(step)));
    if (Tile::has_group(group)) {
      if constexpr (Tile::cluster > 1)
#pragma unroll
        for (int i = 0; i < Tile::cluster - 1; ++i)
          add_handed(dq, group, i);
      store(dq, first_walked<Tile>() + group * 64);
    } else {
      hand_over(dq, group);
    }
  }

 private:
  static constexpr int wide = Tile::width / 8;
  static_assert(Tile::slots <= 2, "heads alternate between two slots");
  /// Of what is handed over for this head.
  KILN_DEVICE int parity() const { return keys != at.own(0, 0); }
  KILN_DEVICE int turn_of(int step) const { return (step + turn) % 2; }
  KILN_DEVICE int warp() const { return RowsOfWarp<Tile>::warp() % 4; } // of the warpgroup

  /// dq (64, width) = the transposed score gradients times the block's keys.
  KILN_DEVICE void multiply(float (&dq)[wide][4], const char* slopes) const {
    float(&flat)[wide * 4] = reinterpret_cast<float(&)[wide * 4]>(dq);
    const auto a = mn_major<128>(slopes, Tile::Slopes::panel_bytes);
    const auto b = mn_major<Tile::Queries::swizzle>(keys, Tile::Queries::panel_bytes);
    pin(flat);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < Tile::queries / 16; ++k)
      wgmma<T, Tile::width, true, true>(flat, a + k * 16 * 128, b + k * 16 * Tile::Queries::swizzle,
                                        k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(flat);
  }
  KILN_DEVICE char* handed(int place, int n) const {
    return at.handed(place) + (n * 128 + thread_index() % 128) * 16;
  }
  KILN_DEVICE void hand_over(const float (&dq)[wide][4], int group) const {
    using Handing = HandingOver<Tile>;
    const int other = Handing::other(group), place = Handing::place(group);
    mbarrier_wait_for_cluster(at.handed_free(Handing::free(group)), parity() ^ 1);
#pragma unroll
    for (int n = 0; n < wide; ++n)
      store_to_block(handed(place, n), dq[n], at.handed_full(place), other);
  }
  /// What the i-th of the other blocks has.
  KILN_DEVICE void add_handed(float (&dq)[wide][4], int group, int i) const {
    using Handed = HandedOver<Tile>;
    const int place = Handed::place(group, i);
    mbarrier_wait_for_cluster(at.handed_full(place), parity());
#pragma unroll
    for (int n = 0; n < wide; ++n) {
      const auto other = load_shared<Vec<float, 4>>(handed(place, n));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        dq[n][j] += other[j];
    }
    if (thread_index() % 128 == 0)
      mbarrier_arrive_expecting(at.handed_full(place), Tile::hand_over_bytes / 2);
    warp_barrier();
    if (thread_index() % 32 == 0) // of whose warp all lanes have read
      mbarrier_arrive_in_block(at.handed_free(Handed::free(group, i)), Handed::other(i));
  }
  KILN_DEVICE void store(float (&dq)[wide][4], int first) const {
    const int row = first + 16 * warp();
    scale_gradients(dq, scale);
    store_rows<Out::access, Tile::row_width>(at.stored_by(RowsOfWarp<Tile>::warp()), dq,
                                             out.row(head, row), out.stride, queries - row);
    warp_barrier(); // the next rows are stored through the same memory
  }
};

/// The parameters are those of differentiate_keys_sharing, and where gradients of queries go.
template <class BiasElement, int groups, int loading, int working, int bias_box, class Tile,
          class Scores, class Bias, class Lse, class Delta, class QueryGradient, class KeyGradient,
          class ValueGradient, class Parts = WholeKeys>
KILN_DEVICE void
differentiate_all_sharing(Tile tile, char* memory, const Scores& scores, i64 biases, i64 sharing,
                          const MappedHeads& query, const MappedHeads& key,
                          const MappedHeads& value, const MappedHeads& gradient, const Bias& bias,
                          const Lse& lse, const Delta& delta, const QueryGradient& query_gradient,
                          const KeyGradient& key_gradient, const ValueGradient& value_gradient,
                          float* partials, const Parts& parts = Parts()) {
  using Memory = SharedBiasMemory<Tile, shared_bias_all_store<Tile, typename QueryGradient::Element,
                                                              typename KeyGradient::Element,
                                                              typename ValueGradient::Element>()>;
  const Memory at{memory};
  differentiate_keys_in<BiasElement, groups, loading, working, bias_box>(
      tile, at, scores, biases, sharing, query, key, value, gradient, bias, lse, delta,
      key_gradient, value_gradient, BiasSums<Tile>(partials),
      QueryGradients<Tile, Memory, QueryGradient>(at, query_gradient, scores.scale,
                                                  int(scores.sight.queries)),
      parts);
}
} // namespace kiln
