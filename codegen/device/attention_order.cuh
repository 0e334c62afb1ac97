// The order in which blocks of attention that stay (attention_resident.cuh) take tiles of queries.
#pragma once

#include "attention.cuh"

namespace kiln {

/// The tiles of queries that a block takes, head by head.
template <int queries> struct TilesInTurn {
  u32 tiles, all, number = u32(block_index()); // of a head; of all heads
  int rows;

  KILN_DEVICE TilesInTurn(i64 heads, i64 rows)
      : tiles(u32((rows + queries - 1) / queries)), all(u32(heads) * tiles), rows(int(rows)) {}
  KILN_DEVICE bool has_tile() const { return number < all; }
  KILN_DEVICE BlockOfRows tile() const {
    return {number / tiles, int(number % tiles) * queries, rows};
  }
  KILN_DEVICE void advance() { number += u32(block_count()); }
};

/// Where attention is causal, so that all blocks have as much to do: first pairs of tiles that see
/// as many keys together, head by head, of a head's tiles the last and the first, and so on, with
/// the middle one of an odd number alone. The tiles of the last heads, some four for each block,
/// are ranked, the longest first. Blocks that had a pair less take a pair again, the ranks on both
/// ends, and then all go through the rest of them, forth and back.
template <int queries> struct TilesInPairs {
  u32 tiles, ranked_heads, paired_heads, blocks, pairs, late, step = 0;
  int rows;

  KILN_DEVICE TilesInPairs(i64 heads, i64 rows)
      : tiles(u32((rows + queries - 1) / queries)), blocks(u32(block_count())), rows(int(rows)) {
    const u32 four = tiles == 0 ? 0 : (4 * blocks + tiles - 1) / tiles;
    ranked_heads = four < u32(heads) ? four : u32(heads);
    paired_heads = u32(heads) - ranked_heads;
    const u32 all = paired_heads * pairs_of_head();
    pairs = (all + blocks - 1 - u32(block_index())) / blocks; // of the block
    late = (blocks - all % blocks) % blocks;                  // blocks that have one less
  }
  KILN_DEVICE u32 pairs_of_head() const { return (tiles + 1) / 2; }
  KILN_DEVICE bool is_paired() const { return step < 2 * pairs; }
  /// Of those that are left, of which `late` on both ends are for blocks that had a pair less.
  KILN_DEVICE u32 rank() const {
    const u32 block = u32(block_index()), first = blocks - late;
    u32 turn = step - 2 * pairs;
    if (block >= first) {
      if (turn < 2)
        return turn == 0 ? block - first : ranked_heads * tiles - 1 - (block - first);
      turn -= 2;
    }
    const u32 from = late + turn * blocks;
    return turn % 2 == 0 ? from + block : from + blocks - 1 - block;
  }
  KILN_DEVICE bool has_tile() const {
    const bool is_own = u32(block_index()) >= blocks - late && step < 2 * pairs + 2;
    return is_paired() || is_own || rank() < ranked_heads * tiles - late;
  }
  KILN_DEVICE BlockOfRows tile() const {
    if (!is_paired()) {
      const u32 before = rank() / ranked_heads; // those that see more
      return {paired_heads + rank() % ranked_heads, int(tiles - 1 - before) * queries, rows};
    }
    const u32 number = step / 2 * blocks + u32(block_index()), all = pairs_of_head();
    // Heads begin with different pairs: else a block might have those of the middle tile alone.
    const u32 head = number / all, pair = (number % all + head + head / all) % all;
    const bool is_alone = pair == tiles / 2; // there is no other, and no row
    const u32 tile = step % 2 == 0 ? tiles - 1 - pair : is_alone ? tiles : pair;
    return {head, int(tile) * queries, rows};
  }
  KILN_DEVICE void advance() { ++step; }
};

} // namespace kiln
