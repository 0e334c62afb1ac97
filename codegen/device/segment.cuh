// Elementwise kernels over lists of tensors in one launch. The table of a list has two parts:
//   chunks    8 bytes a chunk of `elements` neighbouring elements: the entry of the list it belongs
//             to (low 32 bits) and its number within that entry's tensors (high 32 bits)
//   segments  a record for each entry: 2 * length + (whether all its pointers are multiples of 16
//             bytes), then one pointer for each list
// A kernel may have several parts, each with a table and a tile of its own, whose blocks follow
// each other. A block looks its chunk up and works on it in vectors; the elements behind the last
// whole vector, and chunks that vectors cannot reach, go one by one. Small chunks win: on an H200
// AdamW over 110 tensors takes 1.007 times a copy with 1024 elements a block, 1.05 times with
// 16384.
#pragma once

#include "angle.cuh"
#include "reduce.cuh"

namespace kiln {

template <int elements_, int vector_, int threads_, int chunks_, int lists_> struct ChunkTile {
  static constexpr int elements = elements_;
  static constexpr int vector = vector_;
  static constexpr int threads = threads_;
  static constexpr int chunks = chunks_; // of a block
  static constexpr int lists = lists_;   // pointers in a record

  static_assert(elements % vector == 0, "a vector never crosses the end of a chunk");
  static_assert(threads % 32 == 0 && threads <= 1024, "a block is 1 to 32 warps");

  KILN_DEVICE static void barrier() { block_barrier(); }
  /// The chunks of a block, which may be counted from the first of its part on.
  KILN_DEVICE static i64 begin(i64 block = block_index()) { return block * chunks; }
  KILN_DEVICE static i64 end(i64 count, i64 block = block_index()) {
    return begin(block) + chunks < count ? begin(block) + chunks : count;
  }
};

/// `width` neighbouring elements of a chunk.
template <int width> struct Piece {
  static constexpr int vector = width;
  int first;

  template <class T> KILN_DEVICE Vec<T, width> load(const T* from) const {
    return load_vector<width, width>(from + first);
  }
  template <class T, class From> KILN_DEVICE void store(T* to, const Vec<From, width>& v) const {
    store_vector<width>(to + first, convert<T>(v));
  }
};

/// A chunk of one entry of the lists.
template <class Tile> struct Segment {
  const i64* record;
  i64 first; // element of the tensors at which the chunk begins
  int count; // elements of the chunk
  bool aligned;

  KILN_DEVICE Segment(const i64* chunks, const i64* segments, i64 chunk) {
    const u64 place = load_global<u64>(chunks + chunk);
    record = segments + i64(u32(place)) * (1 + Tile::lists);
    first = i64(place >> 32) * Tile::elements;
    const i64 header = load_global<i64>(record);
    const i64 rest = (header >> 1) - first;
    count = rest < Tile::elements ? int(rest) : Tile::elements;
    aligned = header & 1;
  }

  /// Where the chunk lies in the tensor of the list with this index.
  template <class T> KILN_DEVICE T* list(int index) const {
    return reinterpret_cast<T*>(load_global<u64>(record + 1 + index)) + first;
  }

  /// Calls `body` with a Piece for all elements of the chunk. One vector a thread is in flight:
  /// many threads with few loads move more than few with many.
  template <class Body> KILN_DEVICE void each(Body body) const {
    const int whole = aligned ? count / Tile::vector * Tile::vector : 0;
#pragma unroll 1
    for (int i = thread_index() * Tile::vector; i < whole; i += Tile::threads * Tile::vector)
      body(Piece<Tile::vector>{i});
#pragma unroll 1
    for (int i = whole + thread_index(); i < count; i += Tile::threads)
      body(Piece<1>{i});
  }
};

/// Bytes of scratch that sum_of_partials needs: a number of each warp.
template <int threads> KILN_DEVICE constexpr int sum_of_partials_bytes() {
  return threads / 32 * 4;
}

/// The sum of `lines` numbers, in an order that depends on their count only; every thread of the
/// block gets it.
template <int threads>
KILN_DEVICE float sum_of_partials(const float* partials, i64 lines, char* scratch) {
  float* slots = reinterpret_cast<float*>(scratch); // (warps)
  float value = 0.0f;
#pragma unroll 8
  for (i64 line = thread_index(); line < lines; line += threads)
    value += load_global<float>(partials + line);
  value = combine_lanes<Sum, 1, 32>(value);
  block_barrier(); // nobody reads the scratch of an earlier sum any more
  if (thread_index() % 32 == 0)
    store_shared(slots + thread_index() / 32, value);
  block_barrier();
  float total = 0.0f;
#pragma unroll
  for (int warp = 0; warp < threads / 32; ++warp)
    total += load_shared<float>(slots + warp);
  return total;
}

/// Writes a number that all threads know, rounded to the type stored.
template <class T, class From> KILN_DEVICE void store_scalar(T* to, From value) {
  if (thread_index() == 0)
    store_global(to, convert<T>(Vec<From, 1>{{value}}));
}

} // namespace kiln
