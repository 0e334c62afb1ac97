// Rows of blocks that take heads which share a bias (attention_shared_bias.cuh): which of them a
// block and each of its warps has, and what they see of the others.
#pragma once

#include "attention_warpgroups.cuh"

namespace kiln {

/// Blocks have queries and walk over keys. Later queries see most where attention is causal.
struct OverKeys {
  static constexpr bool last_sees_most = true;
  template <class Sight> static KILN_DEVICE i64 own(const Sight& sight) { return sight.queries; }
  template <class Sight> static KILN_DEVICE i64 others(const Sight& sight) { return sight.keys; }
  template <class Sight> static KILN_DEVICE Span seen(const Sight& sight, int row) {
    return sight.keys_of(row);
  }
  /// What is read of a mask ahead of a head: of the lane's rows from `row` on, or of the first
  /// tile.
  template <class Tile, class Scores>
  static KILN_DEVICE LaneOfMask<Tile::keys> ahead(const Scores& scores, int, int first) {
    return read_mask<Tile::keys>(scores, first);
  }
};
/// Blocks have keys and walk over queries: in the names of tiles the block's rows are `queries`,
/// and `keys` are what it walks over.
struct OverQueries {
  static constexpr bool last_sees_most = false;
  template <class Sight> static KILN_DEVICE i64 own(const Sight& sight) { return sight.keys; }
  template <class Sight> static KILN_DEVICE i64 others(const Sight& sight) { return sight.queries; }
  template <class Sight> static KILN_DEVICE Span seen(const Sight& sight, int row) {
    return sight.queries_of(row);
  }
  template <class Tile, class Scores>
  static KILN_DEVICE OpenRows ahead(const Scores& scores, int row, int) {
    OpenRows open = open_rows(scores, row);
    if constexpr (Tile::is_crowded)
      open.all = all_lanes(open.rows[0] && open.rows[1]);
    return open;
  }
};

/// What a block works on: a tile of rows of its own, a bias, and [first, end) of the heads that
/// share it, of which the grid has `groups` groups; 0: each is one. Tiles of rows come first in the
/// grid, those that see most before the others, then biases. Heads are counted so that those that
/// share a bias are neighbours, `sharing` of them.
struct BlockOfSharers {
  u32 bias, head; // the bias's first head
  int first, end; // of those that share it
  int first_row;
  int group;

  template <class Tile, class Scores>
  KILN_DEVICE BlockOfSharers(Tile, const Scores& scores, i64 block, i64 biases, i64 sharing,
                             int groups) {
    constexpr int tile = Tile::queries;
    const i64 tiles = (Tile::Walk::own(scores.sight) + tile - 1) / tile;
    const i64 of_bias = block / tiles, of_tile = block % tiles;
    group = int(of_bias / biases);
    bias = u32(of_bias % biases);
    head = bias * u32(sharing);
    first = groups == 0 ? group : int(sharing * group / groups);
    end = groups == 0 ? group + 1 : int(sharing * (group + 1) / groups);
    first_row = int(Tile::Walk::last_sees_most ? tiles - 1 - of_tile : of_tile) * tile;
  }
};

/// The tiles that a block walks over.
template <class Tile, class Scores>
KILN_DEVICE SeenTiles tiles_of(const Scores& scores, const BlockOfSharers& block) {
  using Walk = typename Tile::Walk;
  return seen_tiles<Tile::queries, Tile::keys>(
      scores.sight, block.first_row, int(Walk::own(scores.sight)), Walk::others(scores.sight),
      [&](int row) { return Walk::seen(scores.sight, row); });
}

/// Where a warp's rows are in its block's tile. Made of the thread's number whenever that is asked
/// for: registers are scarce. Where a tile is crowded, it is known to be the same for all threads
/// of the warp, so that what follows from it takes none of theirs.
template <class Tile> struct RowsOfWarp {
  KILN_DEVICE static int warp() {
    return Tile::is_crowded ? uniform(thread_index() / 32) : anew(thread_index()) / 32;
  }
  /// Which of the heads side by side its warpgroup takes.
  KILN_DEVICE static int side() { return Tile::side == 1 ? 0 : warp() * 16 / Tile::queries; }
  /// The first of the warp's rows in the tile, and of its warpgroup's.
  KILN_DEVICE static int row_in_tile() { return warp() * 16 % Tile::queries; }
  KILN_DEVICE static int group_row() { return row_in_tile() / 64 * 64; }
  /// Of the thread.
  KILN_DEVICE static int thread_row() { return row_in_tile() + thread_index() % 32 / 4; }
};

/// What a thread's two rows see. Where all rows of the block exist and see whole tiles is told for
/// them at once, and what each row sees is found anew elsewhere. Of one sequence: the later a row,
/// the later it begins and ends to see.
template <class Tile, class Sight> struct SeenByBlock {
  const Sight& sight;
  int first; // row of the block
  Span whole;

  KILN_DEVICE SeenByBlock(const Sight& sight, int first) : sight(sight), first(first) {
    using Walk = typename Tile::Walk;
    const int last = first + Tile::queries - 1;
    const bool exist = last < int(Walk::own(sight)); // those that do not must not read masks
    const Span of_first = Walk::seen(sight, first);
    const Span of_last = exist ? Walk::seen(sight, last) : Span{0, 0};
    whole.begin = of_first.begin > of_last.begin ? of_first.begin : of_last.begin;
    whole.end = of_first.end < of_last.end ? of_first.end : of_last.end;
  }
  KILN_DEVICE bool covers(int from, int to) const { return whole.covers(from, to); }
  KILN_DEVICE TwoSpans spans() const {
    using Walk = typename Tile::Walk;
    return seen_by_two(first + RowsOfWarp<Tile>::thread_row(), int(Walk::own(sight)),
                       [&](int row) { return Walk::seen(sight, row); });
  }
};
/// Of packed sequences, which are searched for, the spans themselves.
template <class Tile, class Sight> struct SeenByRows : TwoSpans {
  KILN_DEVICE SeenByRows(const Sight& sight, int first)
      : TwoSpans(seen_by_two(first + RowsOfWarp<Tile>::thread_row(), int(Tile::Walk::own(sight)),
                             [&](int row) { return Tile::Walk::seen(sight, row); })) {}
};
template <class Tile, class Sight> struct SeenBy {
  using type = SeenByBlock<Tile, Sight>;
};
template <class Tile> struct SeenBy<Tile, Sight<PackedSequences>> {
  using type = SeenByRows<Tile, Sight<PackedSequences>>;
};

/// What is the same for all heads that a warp takes.
template <class Tile, class Sight> struct SharersTurn : RowsOfWarp<Tile> {
  int first_of_block;
  SeenTiles tiles;
  typename SeenBy<Tile, Sight>::type seen;

  KILN_DEVICE SharersTurn(const Sight& sight, int first_row, const SeenTiles& tiles)
      : first_of_block(first_row), tiles(tiles), seen(sight, first_row) {}
  KILN_DEVICE int first_row() const { return first_of_block + this->row_in_tile(); }
  KILN_DEVICE int row() const { return first_of_block + this->thread_row(); } // of the thread
};

} // namespace kiln
