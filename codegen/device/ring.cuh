// Tiles of rows that pass through a ring in shared memory. One warp of the block, the mover, starts
// bulk copies of whole tiles; the others take a tile out of its stage as soon as it is complete.
// Tiles of inputs that are older than the predecessor of a programmatic launch are on their way
// before the predecessor has ended, as many as there are stages. Where nothing is known to be older
// the first tiles come to the L2 cache meanwhile, which sees what the predecessor still writes.
// A stage holds the rows of each input one after another, each at a place of its own, a multiple of
// 16 bytes; rows must lie one after another in memory. Where the bytes of a tile are no multiple of
// 16 (LooseTile), what shares its first and last 16 bytes comes with it. So may vectors overlap the
// ends of rows that begin at one place of them (SteadyTile).
#pragma once

#include "row.cuh"

namespace kiln {

/// Tiles that begin and end between the multiples of 16 bytes. A block that has a single row at a
/// time has it whole: a tile that is past the end is none.
template <int columns_, int lanes_, int vector_, int rows_, int threads_>
struct LooseTile : RowTile<columns_, lanes_, vector_, rows_, threads_, 1> {
  using Base = RowTile<columns_, lanes_, vector_, rows_, threads_, 1>;
  static_assert(!Base::overlaps, "threads hold the same columns of every row");
  KILN_DEVICE LooseTile(i64 row_count, i64 tile_index) : Base(row_count, tile_index) {}
  KILN_DEVICE bool valid(int r) const { return Base::rows_per_block == 1 || Base::valid(r); }
};
KILN_DEVICE constexpr bool is_loose(const void*) {
  return false;
}
template <int columns, int lanes, int vector, int rows, int threads>
KILN_DEVICE constexpr bool is_loose(const LooseTile<columns, lanes, vector, rows, threads>*) {
  return true;
}
template <int columns, int lanes, int vector, int threads>
KILN_DEVICE constexpr bool is_loose(const SteadyTile<columns, lanes, vector, threads, 1>*) {
  return true;
}

/// A stage that is filled, and the rows it is filled with.
struct RingStage {
  char* memory;
  u64* full;
  i64 row;
  int rows;
  bool values; // whether values of rows come through the ring

  /// Starts to copy `elements` elements a row to a place in the stage. Of single values a few may
  /// make no 16 bytes, or begin between their multiples: these the mover copies itself.
  template <int elements, class T> KILN_DEVICE void copy(const T* from, int place) const {
    constexpr int row_bytes = elements * sizeof(T);
    const char* source = reinterpret_cast<const char*>(from + row * elements);
    const bool aligned = row_bytes % 16 == 0 || reinterpret_cast<u64>(source) % 16 == 0;
    const int bytes = rows * row_bytes, whole = aligned ? bytes / 16 * 16 : 0;
    if (whole > 0) {
      mbarrier_expect(full, whole);
      bulk_copy_to_shared(memory + place, source, whole, full);
    }
    if constexpr (row_bytes % 16 != 0)
#pragma unroll 1
      for (int at = whole; at < bytes; at += sizeof(T))
        store_shared(memory + place + at, load_global<T>(source + at));
  }
  /// The same of one value a row.
  template <class T> KILN_DEVICE void copy_rows(const T* from, int place) const {
    if (values)
      copy<1>(from, place);
  }
  /// The rows of a tensor of `count` rows, wherever they begin and end. What makes no 16 bytes at
  /// the tensor's end is left out.
  template <int elements, class T>
  KILN_DEVICE void copy_loose(const T* from, i64 count, int place) const {
    constexpr i64 row_bytes = elements * sizeof(T);
    const i64 begin = row * row_bytes / 16 * 16, end = ((row + rows) * row_bytes + 15) / 16 * 16;
    const i64 last = count * row_bytes / 16 * 16;
    const int bytes = int((end < last ? end : last) - begin);
    if (bytes > 0) {
      mbarrier_expect(full, bytes);
      bulk_copy_to_shared(memory + place, reinterpret_cast<const char*>(from) + begin, bytes, full);
    }
  }
  /// Brings rows of `elements` elements to the L2 cache, but for what shares its 16 bytes with
  /// others.
  template <int elements, class T> KILN_DEVICE void prefetch_tile(const T* from) const {
    const u64 begin = reinterpret_cast<u64>(from + row * elements);
    const u64 end = reinterpret_cast<u64>(from + (row + rows) * elements);
    const u64 first = (begin + 15) / 16 * 16, last = end / 16 * 16;
    if (first < last)
      bulk_prefetch(reinterpret_cast<const void*>(first), int(last - first));
  }
  /// Of a loose tile each thread reads the values of its rows itself, and soon.
  template <class T> KILN_DEVICE void prefetch_rows(const T* from) const {
    prefetch(from + row);
    prefetch(from + row + rows - 1);
  }
};

/// Bytes of shared memory that a ring needs: its stages, and two barriers for each. No member of
/// it: a constant of a class is in the cubin.
template <class Ring> KILN_DEVICE constexpr int ring_bytes() {
  return Ring::stages * (Ring::stage_bytes + 2 * int(sizeof(u64)));
}

template <class Tile, int stages_, int stage_bytes_> struct Ring {
  static constexpr int stages = stages_;
  static constexpr int stage_bytes = stage_bytes_;
  static_assert(stage_bytes % 16 == 0, "bulk copies move multiples of 16 bytes");
  /// Values of a whole tile's rows, 2 bytes each or more, are multiples of 16 bytes. Those of the
  /// last tile, which may lack rows, are then not the mover's: each thread reads its own.
  /// Of loose tiles no values come through the ring.
  static constexpr bool even =
      Tile::rows_per_block % 8 == 0 || is_loose(static_cast<const Tile*>(nullptr));

  char* memory; // (stages, stage_bytes)
  u64* full;    // (stages), completed by the mover and its copies
  u64* empty;   // (stages), completed by the warps that have read a stage
  int slot = 0;
  int phase = 0;

  KILN_DEVICE explicit Ring(char* place)
      : memory(place), full(reinterpret_cast<u64*>(place + stages * stage_bytes)),
        empty(full + stages) {
    if (thread_index() == 0) {
#pragma unroll 1
      for (int stage = 0; stage < stages; ++stage) {
        mbarrier_initialize(full + stage, 1);
        mbarrier_initialize(empty + stage, even ? Tile::threads / 32 : Tile::threads);
      }
      mbarrier_fence();
    }
    block_barrier();
  }

  /// Where many instructions are issued for what is loaded, the compiler is told that a warp takes
  /// one way: what follows is then free to use registers that warps share.
  KILN_DEVICE bool moves() const {
    if constexpr (Tile::columns % 4 != 0 || is_loose(static_cast<const Tile*>(nullptr)))
      return uniform(thread_index() / 32) >= Tile::threads / 32;
    else
      return thread_index() >= Tile::threads;
  }

  KILN_DEVICE RingStage stage(const Tile& at, int index) const {
    const u32 left = at.count - at.base;
    return {memory + index * stage_bytes, full + index, at.base,
            left < u32(Tile::rows_per_block) ? int(left) : Tile::rows_per_block, has_values(at)};
  }
  static KILN_DEVICE bool has_values(const Tile& at) {
    return !even || at.count - at.base >= u32(Tile::rows_per_block);
  }

  /// What the mover does: `older` starts the copies that need not wait for the predecessor, `rest`
  /// the others. `soon` is called ahead for the first tiles.
  template <class Older, class Rest> KILN_DEVICE void move(i64 count, Older older, Rest rest) {
    move(count, older, older, rest);
  }
  template <class Soon, class Older, class Rest>
  KILN_DEVICE void move(i64 count, Soon soon, Older older, Rest rest) {
    if (thread_index() != Tile::threads)
      return;
    const Tile first(count, block_index());
    Tile ahead = first;
#pragma unroll 1
    for (int index = 0; index < stages && ahead.any(); ++index, ahead.advance(block_count()))
      soon(stage(ahead, index));
    wait_for_predecessor();
    release_successor();
    bool again = false; // the stages have been used
#pragma unroll 1
    for (Tile at = first; at.any(); at.advance(block_count())) {
      const RingStage to = stage(at, slot);
      if (again) {
        mbarrier_wait(empty + slot, phase ^ 1);
        older(to);
      }
      rest(to);
      mbarrier_arrive(full + slot);
      next();
      again |= slot == 0;
    }
  }

  /// Waits until the next tile is there.
  KILN_DEVICE void await() const { mbarrier_wait(full + slot, phase); }

  /// This thread's part of the tile, which must have been awaited.
  template <class T>
  KILN_DEVICE void read(const Tile& at, Registers<Tile, T>& to, int place) const {
    const T* from = reinterpret_cast<const T*>(memory + slot * stage_bytes + place);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r)
#pragma unroll
      for (int c = 0; c < Tile::chunks; ++c) {
        Vec<T, Tile::vector> v = {};
        if (at.has(c))
          v = load_shared_vector<Tile::vector>(
              from + int(at.row_to_read(r) - at.base) * Tile::columns + at.column(c));
        to.set(r, c, v);
      }
  }
  /// The same of a loose tile, widened if `To` is wider. `all`: the tensor, whose last elements no
  /// copy may have brought.
  template <class T, class To>
  KILN_DEVICE void read_loose(const Tile& at, Registers<Tile, To>& to, int place,
                              const T* all) const {
    char* stage = memory + slot * stage_bytes + place;
    T* from = reinterpret_cast<T*>(stage) + at.base * u32(Tile::columns) % (16 / sizeof(T));
    if (at.count - at.base <= u32(Tile::rows_per_block))
      complete(at, from, all);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r)
#pragma unroll
      for (int c = 0; c < Tile::chunks; ++c) {
        Vec<To, Tile::vector> v = {};
        if (at.has(c))
          v = convert<To>(load_shared_vector<Tile::vector>(
              from + int(at.row_to_read(r) - at.base) * Tile::columns + at.column(c)));
        to.set(r, c, v);
      }
  }
  template <class T, class To>
  KILN_DEVICE void read_rows(const Tile& at, To (&to)[Tile::rows], const T* all, int place) const {
    const T* from = reinterpret_cast<const T*>(memory + slot * stage_bytes + place);
    const bool here = has_values(at);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r)
      to[r] = To(here ? load_shared<T>(from + int(at.row_to_read(r) - at.base))
                      : load_global<T>(all + at.row_to_read(r)));
  }

  /// The warp has read the tile: its stage may be filled again. Where the mover itself stores to a
  /// stage, each lane says so: checkers of races see no order by way of a lane that arrives for its
  /// warp. It is slower, so whole tiles, of which bulk copies fill all, have one lane arrive.
  KILN_DEVICE void release() {
    bulk_copy_fence();
    if constexpr (even)
      warp_barrier();
    if (!even || thread_index() % 32 == 0)
      mbarrier_arrive(empty + slot);
    next();
  }

 private:
  /// Adds to the last tile what makes no 16 bytes at the tensor's end. Nobody reads what was there.
  /// Vectors that overlap the ends of rows read all of these 16 bytes.
  template <class T> KILN_DEVICE void complete(const Tile& at, T* tile, const T* all) const {
    const i64 count = i64(at.count) * Tile::columns, first = i64(at.base) * Tile::columns;
    const int rest = int(count % i64(16 / sizeof(T)));
    Tile::barrier();
    if constexpr (Tile::overlaps) {
      const i64 element = count - rest + thread_index();
      if (rest > 0 && thread_index() < int(16 / sizeof(T)))
        store_shared(tile + int(element - first),
                     element < count ? load_global<T>(all + element) : T{});
    } else if (thread_index() < rest) {
      const i64 element = count - rest + thread_index();
      if (element >= first)
        store_shared(tile + int(element - first), load_global<T>(all + element));
    }
    Tile::barrier();
  }
  KILN_DEVICE void next() {
    if (++slot == stages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

} // namespace kiln
