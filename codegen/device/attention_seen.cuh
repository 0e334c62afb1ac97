// What the rows of a block of an attention kernel see of the others: the tiles that the block walks
// over, and of a tile whether all see it whole, and if not, which places.
#pragma once

#include "scores.cuh"

namespace kiln {

/// What the `rows` rows of a block, of which those from `end` on do not exist, see of the `all`
/// others: their span, and its tiles of `others`.
struct SeenTiles {
  Span span;
  int first, count; // the first row of the first tile; tiles
};
template <int rows, int others, class Sight, class Of>
KILN_DEVICE SeenTiles seen_tiles(const Sight& sight, int first_row, int end, i64 all, Of of) {
  const Span span =
      sight.sees_all()
          ? Span{0, int(all)}
          : sight.seen_by(first_row, first_row + rows < end ? first_row + rows : end, of);
  const int first = span.begin / others * others;
  return {span, first, (span.end - first + others - 1) / others};
}

/// Of the two rows of a thread.
struct TwoSpans {
  Span rows[2];
  KILN_DEVICE const Span& operator[](int r) const { return rows[r]; }
  KILN_DEVICE const TwoSpans& spans() const { return *this; }
  /// All lanes of the warp ask together.
  KILN_DEVICE bool covers(int first, int last) const {
    return all_lanes(rows[0].covers(first, last) && rows[1].covers(first, last));
  }
};
/// What rows `row` and `row` + 8 see; those from `end` on do not exist, and see nothing.
template <class Of> KILN_DEVICE TwoSpans seen_by_two(int row, int end, Of of) {
  return {{row < end ? of(row) : Span{0, 0}, row + 8 < end ? of(row + 8) : Span{0, 0}}};
}

/// Of one sequence, what the 16 rows from `first` on see of keys, those of a thread found anew
/// where they do not see the same: registers are few. The later a row, the later it begins and ends
/// to see.
template <class Sight> struct SeenByWarp {
  const Sight& sight;
  int first, end;

  /// The keys that a row sees before an end, which is all of it where it sees from the first on.
  struct Before : Span {
    bool from_first; // known when compiled
    KILN_DEVICE bool has(int place) const { return from_first ? place < end : Span::has(place); }
  };
  struct Two {
    Before rows[2];
    KILN_DEVICE const Before& operator[](int r) const { return rows[r]; }
  };
  KILN_DEVICE Before of(int row) const {
    return {row < end ? sight.keys_of(row) : Span{0, 0}, sight.sees_from_first()};
  }
  KILN_DEVICE bool covers(int from, int to) const {
    return first + 15 < end && sight.keys_of(first).covers(from, to) &&
           sight.keys_of(first + 15).covers(from, to);
  }
  KILN_DEVICE Two spans() const {
    const int row = first + anew(thread_index()) % 32 / 4;
    return {{of(row), of(row + 8)}};
  }
};

} // namespace kiln
