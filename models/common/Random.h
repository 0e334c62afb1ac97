// Random numbers as functions of a seed and of counters, so that what a run draws follows from its
// seed and the step alone: whatever the number of threads, and after a resume.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace kiln::models {

/// splitmix64: numbers that look random, a function of a counter (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A sequence of numbers that is named by a seed and counters, such as a step and a place in it.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::initializer_list<std::uint64_t> counters = {})
      : state(mix(seed)) {
    for (std::uint64_t counter : counters)
      state = mix(state ^ mix(counter));
  }

  std::uint64_t next() { return mix(state + ++drawn); }
  /// 0 <= x < bound, which must be at least 1. Of 2^64 numbers, bound at most are one too many.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Product = unsigned __int128;
    return static_cast<std::uint64_t>((Product(next()) * bound) >> 64);
  }
  /// 0 <= x < 1, in steps of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Every order is as likely (Fisher and Yates).
  template <typename Range> void shuffle(Range& range) {
    for (std::uint64_t left = range.size(); left > 1; --left) {
      const std::uint64_t place = below(left);
      std::swap(range[left - 1], range[place]);
    }
  }

 private:
  std::uint64_t state, drawn = 0;
};

} // namespace kiln::models
