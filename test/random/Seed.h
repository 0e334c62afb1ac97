// Which functions or programs a run of the tests draws: others each time, unless it is told.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace kiln::test {

inline std::uint64_t numberOf(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// KILN_RANDOM_SEED, or another one each second.
inline std::uint64_t firstSeed() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  static const std::uint64_t seed = numberOf(
      "KILN_RANDOM_SEED",
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count()) *
          1000);
  return seed;
}

} // namespace kiln::test
