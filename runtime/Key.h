// What a kernel is compiled for: the part of a call that a lookup compares. 32 bytes without gaps,
// so that comparing and hashing take a few instructions.
#pragma once

#include "kiln/kiln.h"
#include "runtime/Table.h"

#include <array>
#include <bit>

namespace kiln::runtime {

struct Key {
  std::int64_t width = 0;        // of a row
  double number = 0;             // what else is compiled in, such as an epsilon
  std::uint32_t variant = 0;     // the op's own bits: operands that are there, results wanted
  std::array<DType, 4> dtypes{}; // the op's own order
  std::int32_t index = 0;        // as `number`, for an integer
  std::uint8_t rowClass = 0;     // number of bits of the row count
  std::uint8_t device = 0;
  std::array<std::uint8_t, 2> otherClasses{}; // of further run-time sizes

  using Words = std::array<std::uint64_t, 4>;
  Words words() const { return std::bit_cast<Words>(*this); }
  friend bool operator==(const Key& a, const Key& b) {
    const Words x = a.words(), y = b.words(); // written out: std::array's is a call, word by word
    return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
  }

  std::uint64_t hash() const { return hashOf(words()); }
};
static_assert(sizeof(Key) == 32);

} // namespace kiln::runtime
