// Numbers for products of matrices whose sums are exact in any order.
#pragma once

#include <bit>
#include <cstdint>
#include <random>

namespace kiln::test {

/// Multiples of 1/8 that bf16 holds: sums of their products are exact in any order.
struct Eighths {
  std::mt19937 random{7};
  std::uniform_int_distribution<int> distribution{-60, 60};
  float operator()() { return static_cast<float>(distribution(random)) / 8; }
};

inline std::uint16_t bitsOf(float value, bool isBf16) {
  if (isBf16)
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

} // namespace kiln::test
