// Blocks of attention's gradients that take turns (attention_turns.cuh): what they keep in shared
// memory, which keys they have and which queries they walk over, and the two small kernels beside
// theirs, which begin turns and round the sums.
#pragma once

#include "attention_backward.cuh"
#include "attention_warpgroups.cuh"

namespace kiln {

/// A block has `keys` keys and takes `queries` queries at a time. In the names of KeyRing what
/// passes through it are keys and values: here queries and the output's gradient.
template <class T, int width_, int value_width_, int queries_, int keys_, int stages_>
struct TurnsTile {
  static constexpr int width = width_, value_width = value_width_;
  static constexpr int queries = queries_, keys = keys_, stages = stages_;
  static constexpr int groups = keys / 64, loader = 128 * groups; // its first thread
  static constexpr int deep = queries / 8;
  static constexpr int loaders = 1, readers = groups;
  /// Queries whose gradients are added in one turn, whole tiles of them: so many that it takes
  /// longer to compute them than to pass a turn on.
  static constexpr int least = 8192 / width;
  static constexpr int of_turn = queries < least ? least / queries : 1; // tiles
  static constexpr int turn = of_turn * queries;
  static constexpr int slots = 2; // for sums that wait for their turn: a warp adds each
  /// Products of 64 queries and so many columns of keys, and how many of them a warpgroup has.
  static constexpr int columns = queries / 64 * (width / 64) % groups == 0 ? 64 : 32;
  static constexpr int own_pieces = queries / 64 * (width / columns) / groups;
  static_assert(width % 64 == 0 && value_width % 64 == 0, "panels are 64 columns wide");
  static_assert(queries % 64 == 0 && keys % 64 == 0, "products are of 64 queries and of 64 keys");
  static_assert(own_pieces * groups * columns == queries / 64 * width,
                "warpgroups have as much of the gradients of queries");

  using Element = T;
  using OwnKeys = SwizzledTile<keys, width>;
  using OwnValues = SwizzledTile<keys, value_width>;
  using Keys = SwizzledTile<queries, width>;
  using Values = SwizzledTile<queries, value_width>;
  using Slopes = SwizzledTile<keys, queries>; // gradients of scores
  static constexpr int number_bytes = 2 * queries * int(sizeof(float));
  static constexpr int sum_bytes = turn * width * int(sizeof(float));
};

/// What a block keeps in shared memory: its keys and values, a ring, gradients of scores of two
/// tiles, sums that wait for their turn, numbers of queries, barriers. At the end what it stores is
/// in the place of its first tiles.
template <class Tile> struct TurnsMemory {
  static constexpr int values_at = Tile::OwnKeys::bytes;
  static constexpr int ring_at = values_at + Tile::OwnValues::bytes;
  static constexpr int slopes_at = ring_at + KeyRing<Tile>::bytes;
  static constexpr int sums_at = slopes_at + 2 * Tile::Slopes::bytes;
  static constexpr int numbers_at = sums_at + Tile::slots * Tile::sum_bytes;
  static constexpr int barriers_at = numbers_at + Tile::stages * Tile::number_bytes;
  static constexpr int barriers = 1 + 2 * Tile::slots + KeyRing<Tile>::barriers;
  static constexpr int bytes = barriers_at + barriers * int(sizeof(u64));
  char* memory;

  KILN_DEVICE char* keys() const { return memory; }
  KILN_DEVICE char* values() const { return memory + values_at; }
  KILN_DEVICE char* slopes(int which) const {
    return memory + slopes_at + which * Tile::Slopes::bytes;
  }
  KILN_DEVICE char* sums(int slot) const { return memory + sums_at + slot * Tile::sum_bytes; }
  KILN_DEVICE float* numbers(int stage) const {
    return reinterpret_cast<float*>(memory + numbers_at + stage * Tile::number_bytes);
  }
  KILN_DEVICE u64* barrier(int which) const {
    return reinterpret_cast<u64*>(memory + barriers_at) + which;
  }
  KILN_DEVICE u64* own_full() const { return barrier(0); }
  KILN_DEVICE u64* sums_full(int slot) const { return barrier(1 + slot); }
  KILN_DEVICE u64* sums_free(int slot) const { return barrier(1 + Tile::slots + slot); }
  KILN_DEVICE KeyRing<Tile> ring() const {
    return {memory + ring_at, barrier(1 + 2 * Tile::slots)};
  }
  KILN_DEVICE void initialize() const {
    mbarrier_initialize(own_full(), 2);
#pragma unroll
    for (int slot = 0; slot < Tile::slots; ++slot) {
      mbarrier_initialize(sums_full(slot), 4 * Tile::groups * Tile::of_turn); // warps
      mbarrier_initialize(sums_free(slot), 1);
    }
    ring().initialize();
  }
};
template <class Tile, class OutK, class OutV>
KILN_DEVICE constexpr int differentiate_in_turns_bytes() {
  using Memory = TurnsMemory<Tile>;
  static_assert(4 * Tile::groups *
                        larger_store_bytes<OutK, Tile::width, OutV, Tile::value_width>() <=
                    Memory::slopes_at,
                "results are stored through the place of tiles");
  return Memory::bytes;
}

/// The keys that a block has, and the queries that it takes, of each head that shares its keys.
/// Blocks of a few heads are neighbours in the grid, and wait only for such as come before them.
///
/// First come those of the first keys, and take the last queries first. They add in that order: all
/// of a head add to the same sums at a time, which the L2 cache has, each a little later than the
/// one before it.
///
/// `staggered`, where attention is causal and sequences are short: first come those of the last
/// keys, and take the first queries first. Each begins with what it is the first to add to, and
/// finds the sums of the one before it ready, which is a turn ahead. Of long sequences blocks would
/// drift apart, and the cache had forgotten what the next one reads.
template <class Tile, class Sight> struct BlockOfTurns {
  static constexpr i64 heads_together = 16, one_wave = 128; // blocks
  static constexpr i64 most_staggered = 128;                // tiles of keys
  const Sight& sight;
  bool staggered;
  u32 head; // of keys
  int tile; // of keys
  int all;  // turns that a head's queries make
  int first, count;

  KILN_DEVICE BlockOfTurns(const Sight& sight, i64 heads) : sight(sight) {
    const i64 tiles = (sight.keys + Tile::keys - 1) / Tile::keys;
    staggered = sight.causal != Causal::none && tiles <= most_staggered;
    const i64 most =
        staggered && tiles > one_wave / heads_together ? one_wave / tiles : heads_together;
    const i64 before = block_index() / (most * tiles) * most;
    const i64 together = heads - before < most ? heads - before : most;
    const i64 rest = block_index() % (most * tiles), place = rest / together;
    head = u32(before + rest % together);
    tile = int(staggered ? tiles - 1 - place : place);
    all = int((sight.queries + Tile::turn - 1) / Tile::turn);
    // The first tile has also what no key is seen by, so that each turn has a sum. Who sees a key
    // sees those before it.
    const Span seen = sight.queries_of(first_key());
    first = tile == 0 ? 0 : seen.begin / Tile::turn;
    count = tile == 0 || seen.begin < seen.end ? all - first : 0;
  }
  KILN_DEVICE int first_key() const { return tile * Tile::keys; }
  /// Whether the block has no keys that queries from `first` on do not see, but for a mask.
  KILN_DEVICE bool is_seen_from(int first) const {
    if (sight.sees_all() && sight.keys % Tile::keys == 0) // often known when compiling
      return true;
    const int last = first_key() + Tile::keys - 1;
    const Span seen = sight.queries_of(last);
    return last < sight.keys && seen.begin < seen.end && seen.begin <= first;
  }
  /// How many blocks add to a turn's sums before this one.
  KILN_DEVICE int adding_before(int turn) const {
    if (!staggered)
      return tile;
    const int keys = int(sight.keys), queries = int(sight.queries), end = (turn + 1) * Tile::turn;
    const int ahead = sight.causal == Causal::last ? keys - queries : 0;
    const int seen = (end < queries ? end : queries) + ahead; // by the last query of the turn
    return (seen > 0 ? ((seen < keys ? seen : keys) - 1) / Tile::keys : 0) - tile;
  }
};
/// Of these queries those of one turn after the other.
template <class Block> struct WalkOfTurns {
  const Block& block;
  u32 head;      // of queries
  int place = 0; // of the turn
  KILN_DEVICE WalkOfTurns(const Block& block, int shared_by)
      : block(block), head(block.head * u32(shared_by)) {}
  KILN_DEVICE bool begins_head() const { return place == 0; }
  KILN_DEVICE int turn() const {
    return block.staggered ? block.first + place : block.all - 1 - place;
  }
  KILN_DEVICE i64 number() const { return i64(head) * block.all + turn(); } // among all heads'
  KILN_DEVICE void advance() {
    if (++place == block.count) {
      place = 0;
      ++head;
    }
  }
};

/// Where a tile of a turn's queries begins.
template <class Tile, class Walk> KILN_DEVICE int first_query(const Walk& walk, int tile) {
  return walk.turn() * Tile::turn + tile * Tile::queries;
}

/// What a grid of tiles of queries has, in the order of heads.
struct BlockOfTile {
  u32 head;
  int first;
  KILN_DEVICE BlockOfTile(i64 queries, int tile) {
    const i64 tiles = (queries + tile - 1) / tile;
    head = u32(block_index() / tiles);
    first = int(block_index() % tiles) * tile;
  }
};
/// Before: a block of `turn` threads has the queries of one, whose numbers it makes ready to be
/// copied by tiles, lse before delta, and which it begins.
template <int turn, int tile, class Lse, class Delta>
KILN_DEVICE void begin_turns(const Lse& lse, const Delta& delta, i64 queries, float* numbers,
                             i32* turns) {
  const BlockOfTile block(queries, turn);
  const int thread = thread_index();
  const QueryNumbers own =
      numbers_of<false>(lse, delta, block.head, block.first + thread, int(queries));
  float* to = numbers + block_index() * (2 * turn) + thread / tile * (2 * tile) + thread % tile;
  store_global(to, own.lse);
  store_global(to + tile, own.delta);
  if (thread == 0)
    store_global(turns + block_index(), i32(0));
}
/// After: rounds the sums of one, 16 queries a warp. They lie as accumulators do: of each 64
/// queries eight columns after eight, of these four values a thread.
template <int turn, int width, class To>
KILN_DEVICE void finish_turns(char* memory, const float* sums, float scale, i64 queries, i64 keys,
                              const To& to) {
  constexpr int wide = width / 8;
  const BlockOfTile block(queries, turn);
  const int thread = thread_index(), row = block.first + thread / 32 * 16;
  const float* from = sums + (block_index() * (turn / 64) + thread / 128) * (64 * width);
  float dq[wide][4] = {};
  if (keys > 0)
#pragma unroll
    for (int n = 0; n < wide; ++n) {
      const auto four = load_global<Vec<float, 4>>(from + (n * 128 + thread % 128) * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        dq[n][i] = four[i] * scale;
    }
  store_rows<To::access, width>(memory + thread / 32 * store_bytes<typename To::Element, width>(),
                                dq, to.row(block.head, row), to.stride, int(queries) - row);
}

} // namespace kiln
