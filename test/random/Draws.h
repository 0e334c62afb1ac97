// What functions and attentions are drawn with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace kiln::test {

struct Draws {
  std::mt19937_64 random;

  explicit Draws(std::uint64_t seed) : random(seed) {}
  template <class T> T below(T bound) {
    return static_cast<T>(random() % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, std::size_t count> T oneOf(const T (&values)[count]) {
    return values[below(count)];
  }
  template <class T> T oneOf(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
};

} // namespace kiln::test
