// The random numbers of kiln.random on the host: one place for the references of all that use them.
// Kernels have their own, codegen/device/random.cuh; tests hold both against published vectors.
#pragma once

#include "dialect/Reference.h"

#include <array>
#include <cstdint>

namespace kiln::ir {

/// Philox4x32-10: four words that look random, of a key and a counter of four words (low, high).
std::array<uint32_t, 4> philox(uint64_t key, uint64_t low, uint64_t high);

/// The numbers of one seed and offset (tensors without dimensions), by index of the element.
class RandomNumbers {
 public:
  RandomNumbers(const Tensor64& seed, const Tensor64& offset, int64_t bits = 32);
  /// A number of 16 or 32 bits in the upper bits of a word.
  uint32_t word(int64_t index) const;
  /// 24 bits of the word, in [0, 1).
  double uniform(int64_t index) const { return (word(index) >> 8) * 0x1p-24; }

 private:
  uint64_t seed_, offset_;
  int64_t bits_;
};

/// What dropout with probability `p` does with the numbers of a seed: see kiln.dropout.
struct DropoutRule {
  explicit DropoutRule(double p);
  bool keeps(uint32_t word) const { return static_cast<int32_t>(word) >= least; }

  int64_t bits; // that decide about an element: 16 where they say p to a thousandth
  double least; // the least word, as a signed number, that keeps an element; 2^31 if none does
  double scale; // of what is kept
};

} // namespace kiln::ir
