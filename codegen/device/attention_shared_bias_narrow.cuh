// What a block has that computes all gradients of attention of narrow rows by products of warps
// (attention_shared_bias_all_warps.cuh): its tile and its numbers of queries, the lanes' places,
// the bias as a product, barriers between halves, hidden keys and sums of the bias's gradient.
#pragma once

#include "attention_shared_bias_all.cuh"
#include "attention_shared_bias_warps.cuh"

namespace kiln {

/// Of a tile of queries: first lse of each, and then of each pair what begins accumulators, minus
/// its deltas, twice.
struct NarrowNumbers {
  float parts[3];
};

/// `queries`: all, in two halves. `blocks`: of a cluster, of which each stores a half.
template <class T, int width, int value_width, int queries_, int keys_, int stages, int side,
          int slots, int held, int tiles_, int blocks>
struct WarpsAllTile
    : SharersTile<T, width, value_width, keys_, queries_, stages, side, slots, OverQueries,
                  SwizzledTile<held, keys_>, true /*differentiates*/, NarrowNumbers> {
  static constexpr bool is_crowded = true, reads_ahead = false;
  static constexpr int of_keys = keys_ / 32, warps = 2 * of_keys; // a half's warps; all
  static constexpr int groups = warps, readers = warps;           // each says what it has read
  static constexpr int loaders = 128;
  static constexpr int half = queries_ / 2, steps = half / 16;
  static constexpr int phases = half / 64; // whose score gradients lie in shared memory at a time
  static constexpr int cluster = blocks;
  using Slopes = SwizzledTile<keys_, 64>;               // a row for each key
  static constexpr int slope_bytes = 2 * Slopes::bytes; // of both halves
  static constexpr int hand_over_bytes = blocks > 1 ? 2 * 64 * 8 * int(sizeof(float)) : 0;
  static constexpr int part_bytes = 2 * keys_ * 8 * int(sizeof(float)); // of keys and of values
  // Steps whose sums a thread has in registers, and what the others' take of shared memory.
  static constexpr int kept = steps < 6 ? steps : 6;
  static constexpr int kept_bytes = (steps - kept) * keys_ * 32 * int(sizeof(float));
  static constexpr int sum_bytes = kept_bytes + 2 * part_bytes + 5 * int(sizeof(u64));
  static_assert(width == 8 && value_width == 8, "a row has half of a product's depth");
  static_assert(held == queries_ && queries_ % 128 == 0 && tiles_ == 1 && side == 1,
                "a block holds all queries");
  static_assert(keys_ == 128, "a half has four warps");
  static KILN_DEVICE constexpr bool is_one_tile() { return true; }
};
template <class Tile> KILN_DEVICE constexpr int all_by_warps_bytes() {
  return SharedBiasMemory<Tile, 0>::bytes;
}

/// Numbers of queries, which the warps that load read.
template <class Lse, class Delta> struct NarrowNumbersOfRows {
  const Lse& lse;
  const Delta& delta;
  template <int rows> struct Read {
    QueryNumbers of_thread[rows / 128];
    KILN_DEVICE void store(NarrowNumbers* memory) const {
      float* to = reinterpret_cast<float*>(memory);
#pragma unroll
      for (int j = 0; j < rows / 128; ++j) {
        const int row = 128 * j + thread_index() % 128, at = rows + row / 2 * 4 + row % 2;
        store_shared(to + row, -of_thread[j].lse);
        store_shared(to + at, -of_thread[j].delta);
        store_shared(to + at + 2, -of_thread[j].delta);
      }
    }
  };
  template <int rows, bool has_bias>
  KILN_DEVICE Read<rows> read(u32 head, int first, i64 end) const {
    Read<rows> numbers;
#pragma unroll
    for (int j = 0; j < rows / 128; ++j)
      numbers.of_thread[j] =
          numbers_of<has_bias>(lse, delta, head, first + 128 * j + thread_index() % 128, int(end));
    return numbers;
  }
};

/// Where the lanes of a warp read in tiles of narrow rows, and in what is of score gradients.
template <class Tile> struct NarrowLanes {
  static KILN_DEVICE u32 lane() { return u32(anew(thread_index())) % 32; }
  static KILN_DEVICE int warp() { return RowsOfWarp<Tile>::warp(); }
  static KILN_DEVICE int half() { return warp() / Tile::of_keys; }
  static KILN_DEVICE int first_key() { return warp() % Tile::of_keys * 32; } // of the warp
};

/// The bias of a warp's keys as a product: two times 16 keys.
template <class Tile, class Element> struct DiagonalBiasOfKeys : BiasDiagonal<Element> {
  static constexpr bool adds = true;
  const char* rows[2]; // the lane's of 16 queries
  char* bias;

  KILN_DEVICE DiagonalBiasOfKeys(char* bias, float scale)
      : BiasDiagonal<Element>(scale), bias(bias) {
    using Lanes = NarrowLanes<Tile>;
    const u32 lane = Lanes::lane(), query = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const u32 key = u32(Lanes::first_key()) + 16 * m + lane / 8 % 2 * 8;
      rows[m] = bias + key / 64 * Tile::Bias::panel_bytes +
                (Lanes::half() * Tile::half + query) * 128 + ((key % 64 / 8) ^ (query % 8)) * 16;
    }
  }
  KILN_DEVICE void prepare() const { lower_infinities<Tile>(bias); }
  /// Adds that of two eights of queries.
  KILN_DEVICE void add_queries(float (&s)[2][4], int m, int step) const {
    u32 words[4];
    load_matrices<true>(words, rows[m] + step * 16 * 128);
    this->add(s[0], words[0], words[1]);
    this->add(s[1], words[2], words[3]);
  }
};

/// Barriers of a block beside those of its memory, and what halves hand each other.
template <class Tile, class Memory> struct NarrowExchange {
  Memory at;
  KILN_DEVICE u64* barrier(int which) const {
    return reinterpret_cast<u64*>(at.sums() + Tile::kept_bytes + 2 * Tile::part_bytes) + which;
  }
  KILN_DEVICE u64* slopes_ready(int half) const { return barrier(half); }
  KILN_DEVICE u64* slopes_free(int half) const { return barrier(2 + half); }
  KILN_DEVICE u64* parts_ready() const { return barrier(4); }
  /// The lane's sums of a warp's keys that the other half stores: those of values of half 0, and of
  /// keys of half 1. Heads alternate between two places.
  KILN_DEVICE Vec<float, 4>* part(int place, int half, int m) const {
    using Lanes = NarrowLanes<Tile>;
    return reinterpret_cast<Vec<float, 4>*>(at.sums() + Tile::kept_bytes +
                                            place * Tile::part_bytes) +
           ((half * Tile::of_keys + Lanes::first_key() / 32) * 2 + m) * 32 + Lanes::lane();
  }
  KILN_DEVICE void initialize() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      mbarrier_initialize(slopes_ready(half), Tile::of_keys);
      mbarrier_initialize(slopes_free(half), Tile::of_keys);
    }
    mbarrier_initialize(parts_ready(), Tile::warps);
  }
};

/// Which of a thread's four keys, two of each 16, are hidden: by a mask, or since there are none.
struct HiddenKeys {
  bool is_hidden[2][2];
  bool none; // of the warp's

  template <class Tile, class Scores>
  KILN_DEVICE HiddenKeys(Tile, const Scores& scores, int first) {
    using Lanes = NarrowLanes<Tile>;
    const int keys = int(scores.all.sight.keys);
    const int row = first + Lanes::first_key() + int(Lanes::lane()) / 4;
    bool any = false;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = row + 8 * j;
      is_hidden[j / 2][j % 2] = key >= keys || scores.hides(key);
      any |= is_hidden[j / 2][j % 2];
    }
    none = !any_lane(any);
  }
  /// Its branch also keeps the assembler from making one of several steps, which spilled.
  KILN_DEVICE void hide(float (&s)[2][2][4]) const {
    if (none)
      return;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (is_hidden[m][i / 2])
            s[m][n][i] = -infinity();
  }
};

/// What a thread sums of the bias's gradient, over heads.
template <class Tile> struct NarrowSums {
  float of[2][2 * Tile::kept][4] = {};
  Vec<float, 4>* others; // the thread's

  KILN_DEVICE explicit NarrowSums(char* memory)
      : others(reinterpret_cast<Vec<float, 4>*>(memory) + thread_index()) {
#pragma unroll
    for (int i = 0; i < 4 * (Tile::steps - Tile::kept); ++i)
      store_shared(others + i * Tile::loader, Vec<float, 4>{});
  }
  KILN_DEVICE Vec<float, 4>* other(int m, int n) const {
    return others + (m * 2 * (Tile::steps - Tile::kept) + n - 2 * Tile::kept) * Tile::loader;
  }
  KILN_DEVICE void add(const float (&ds)[4], int m, int n) {
    if (n < 2 * Tile::kept) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        of[m][n][i] += ds[i];
    } else {
      auto sums = load_shared<Vec<float, 4>>(other(m, n));
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums[i] += ds[i];
      store_shared(other(m, n), sums);
    }
  }
  KILN_DEVICE Vec<float, 4> get(int m, int n) const {
    if (n >= 2 * Tile::kept)
      return load_shared<Vec<float, 4>>(other(m, n));
    return {{of[m][n][0], of[m][n][1], of[m][n][2], of[m][n][3]}};
  }
};

} // namespace kiln
