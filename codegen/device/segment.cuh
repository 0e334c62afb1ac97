// Elementwise kernels over lists of tensors in one launch. The table of a list has two parts:
//   chunks    8 bytes a chunk of `elements` neighbouring elements: the entry of the list it belongs
//             to (low 32 bits) and its number within that entry's tensors (high 32 bits)
//   segments  a record for each entry: 2 * length + (whether all its pointers are multiples of 16
//             bytes), then one pointer for each list
// A kernel may have several parts, each with a table and a tile of its own, whose blocks follow
// each other. A block looks its chunk up and works on it in vectors; the elements behind the last
// whole vector, and chunks that vectors cannot reach, go one by one. Small chunks win: on an H200
// AdamW over 110 tensors takes 1.007 times a copy with 1024 elements a block, 1.05 times with
// 16384. Kernels that only take sums share all chunks among the blocks that fit, which load some
// chunks ahead of those that they add up. A block looks its first chunks up before the predecessor
// has ended: that must not be a kernel which writes the table.
#pragma once

#include "angle.cuh"
#include "reduce.cuh"

namespace kiln {

template <int elements_, int vector_, int threads_, int chunks_, int lists_> struct ChunkTile {
  static constexpr int elements = elements_;
  static constexpr int vector = vector_;
  static constexpr int threads = threads_;
  static constexpr int chunks = chunks_; // of a block; of a share: that are loaded ahead
  static constexpr int lists = lists_;   // pointers in a record

  static_assert(elements % vector == 0, "a vector never crosses the end of a chunk");
  static_assert(threads % 32 == 0 && threads <= 1024, "a block is 1 to 32 warps");

  KILN_DEVICE static void barrier() { block_barrier(); }
};

/// Neighbouring chunks of a list.
struct ChunkSpan {
  i64 begin, end;
};
/// Those of a block, which may be counted from the first of its part on.
template <class Tile> KILN_DEVICE ChunkSpan chunks_of_block(i64 count, i64 block) {
  const i64 end = (block + 1) * Tile::chunks;
  return {block * Tile::chunks, end < count ? end : count};
}
/// The block's share of all `count`, below 2^31; no share is larger than another by two.
KILN_DEVICE ChunkSpan share_of_chunks(i64 count) {
  const u32 block = u32(block_index()), blocks = u32(block_count());
  const u32 each = u32(count) / blocks, more = u32(count) % blocks;
  const i64 begin = i64(block) * each + (block < more ? block : more);
  return {begin, begin + each + (block < more)};
}

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

/// Calls `body` with a Piece for all elements of a chunk of `count`.
template <class Tile, class Body> KILN_DEVICE void each_piece(int count, bool aligned, Body body) {
  const int whole = aligned ? count / Tile::vector * Tile::vector : 0;
#pragma unroll 1
  for (int i = thread_index() * Tile::vector; i < whole; i += Tile::threads * Tile::vector)
    body(Piece<Tile::vector>{i});
#pragma unroll 1
  for (int i = whole + thread_index(); i < count; i += Tile::threads)
    body(Piece<1>{i});
}

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
    each_piece<Tile>(count, aligned, body);
  }
};

/// What is loaded of several lists.
template <class... Parts> struct Pack {};
template <class First, class... Rest> struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;

  template <int index> KILN_DEVICE const auto& get() const {
    if constexpr (index == 0)
      return first;
    else
      return rest.template get<index - 1>();
  }
};
KILN_DEVICE Pack<> pack() {
  return {};
}
template <class First, class... Rest>
KILN_DEVICE Pack<First, Rest...> pack(const First& first, const Rest&... rest) {
  return {first, pack(rest...)};
}

/// Bytes of shared memory for `table` chunks (Segments).
template <class Tile, int table> KILN_DEVICE constexpr int segments_bytes() {
  return table * (2 + Tile::lists) * 8;
}

/// A span of chunks. Threads look up a chunk each, `table` at a time, so that the block seldom
/// waits for the table.
template <class Tile, int table> struct Segments {
  static constexpr int words = 2 + Tile::lists; // elements and whether aligned, first, pointers
  static_assert(table % Tile::chunks == 0 && table <= Tile::threads, "a thread looks up a chunk");

  const i64 *chunks, *segments;
  ChunkSpan span;
  i64* found; // (table, words) of shared memory

  KILN_DEVICE Segments(const i64* chunks, const i64* segments, ChunkSpan span, char* memory)
      : chunks(chunks), segments(segments), span(span), found(reinterpret_cast<i64*>(memory)) {
    look_up(span.begin);
  }

  /// One that has been looked up.
  struct Chunk {
    const i64* mine;

    template <class T> KILN_DEVICE T* list(int index) const {
      return reinterpret_cast<T*>(load_shared<u64>(mine + 2 + index)) + load_shared<i64>(mine + 1);
    }
    KILN_DEVICE bool is_whole() const { return load_shared<i64>(mine) == 2 * Tile::elements + 1; }
    template <class Body> KILN_DEVICE void each(Body body) const {
      const i64 header = load_shared<i64>(mine);
      each_piece<Tile>(int(header >> 1), header & 1, body);
    }
  };

  /// Calls `body` with each chunk, in order.
  template <class Body> KILN_DEVICE void each(Body body) const {
    each_table([&](int count) {
#pragma unroll 1
      for (int chunk = 0; chunk < count; ++chunk)
        body(at(chunk));
    });
  }

  /// Loads up to Tile::chunks chunks ahead of the one that is used. `load(chunk, piece)` returns
  /// what `use(piece, loaded)` takes; `end` is called behind each chunk. Whole chunks come first.
  template <class Load, class Use, class End>
  KILN_DEVICE void stream(Load load, Use use, End end) const {
    each_table([&](int count) {
      stream_whole(count, load, use, end);
#pragma unroll 1
      for (int chunk = 0; chunk < count; ++chunk)
        if (!at(chunk).is_whole()) {
          at(chunk).each([&](auto piece) { use(piece, load(at(chunk), piece)); });
          end();
        }
    });
  }

 private:
  KILN_DEVICE Chunk at(int chunk) const { return {found + chunk * words}; }

  KILN_DEVICE void look_up(i64 first) const {
    if (thread_index() < table && first + thread_index() < span.end) {
      const Segment<Tile> from(chunks, segments, first + thread_index());
      i64* mine = found + thread_index() * words;
      store_shared(mine, i64(2 * from.count + from.aligned));
      store_shared(mine + 1, from.first);
#pragma unroll
      for (int list = 0; list < Tile::lists; ++list)
        store_shared(mine + 2 + list, load_global<i64>(from.record + 1 + list));
    }
    block_barrier();
  }
  /// Calls `body` with how many have been looked up, until all have been.
  template <class Body> KILN_DEVICE void each_table(Body body) const {
#pragma unroll 1
    for (i64 first = span.begin; first < span.end; first += table) {
      if (first != span.begin) {
        block_barrier(); // nobody reads the last ones any more
        look_up(first);
      }
      body(span.end - first < table ? int(span.end - first) : table);
    }
  }

  template <class Load, class Use, class End>
  KILN_DEVICE void stream_whole(int count, Load load, Use use, End end) const {
    constexpr int pass = Tile::threads * Tile::vector;
    constexpr int passes = (Tile::elements + pass - 1) / pass;
    using Loaded = decltype(load(at(0), Piece<Tile::vector>{0}));
    constexpr int bytes = passes * int(sizeof(Loaded)), most = 256; // in registers
    constexpr int fitting = bytes < most ? most / bytes : 1;
    constexpr int deep = fitting < Tile::chunks ? fitting : Tile::chunks;
    Loaded window[deep][passes];
    const auto each_pass = [&](auto body) {
#pragma unroll
      for (int p = 0; p < passes; ++p)
        if (const int i = p * pass + thread_index() * Tile::vector;
            Tile::elements % pass == 0 || i < Tile::elements)
          body(Piece<Tile::vector>{i}, p);
    };
    const auto fetch = [&](int chunk, Loaded(&to)[passes]) {
      if (chunk < count && at(chunk).is_whole())
        each_pass([&](auto piece, int p) { to[p] = load(at(chunk), piece); });
    };
#pragma unroll
    for (int c = 0; c < deep; ++c)
      fetch(c, window[c]);
#pragma unroll 1
    for (int chunk = 0; chunk < count; chunk += deep)
#pragma unroll
      for (int c = 0; c < deep; ++c) {
        if (chunk + c < count && at(chunk + c).is_whole()) {
          each_pass([&](auto piece, int p) { use(piece, window[c][p]); });
          end();
        }
        fetch(chunk + c + deep, window[c]);
      }
  }
};

/// Bytes of scratch that is_last_block needs.
KILN_DEVICE constexpr int is_last_block_bytes() {
  return 4;
}

/// Whether all other blocks of the kernel have come here before; what they have written is then
/// visible. All threads of a block ask, once. `counter` is 0 before and after.
KILN_DEVICE bool is_last_block(i32* counter, char* scratch) {
  const u32 blocks = u32(block_count());
  block_barrier(); // the block has written all, and nobody reads the scratch any more
  if (thread_index() == 0)
    store_shared(scratch, count_block(reinterpret_cast<u32*>(counter), blocks));
  block_barrier();
  return load_shared<u32>(scratch) == blocks - 1;
}

/// Bytes of scratch that sum_of_partials needs: a number of each warp.
template <int threads> KILN_DEVICE constexpr int sum_of_partials_bytes() {
  return threads / 32 * 4;
}

/// The sum of `lines` numbers, in an order that depends on their count only; every thread of the
/// block gets it.
template <int threads>
KILN_DEVICE float sum_of_partials(const float* partials, i64 lines, char* scratch) {
  constexpr int together = 32;                      // loads on their way
  float* slots = reinterpret_cast<float*>(scratch); // (warps)
  float value = 0.0f;
#pragma unroll 1
  for (i64 first = thread_index(); first < lines; first += together * threads) {
    float part[together];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      const i64 line = first + t * threads;
      part[t] = line < lines ? load_global<float>(partials + line) : 0.0f;
    }
#pragma unroll
    for (int t = 0; t < together; ++t)
      value += part[t];
  }
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
