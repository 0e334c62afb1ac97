// Reads kiln::report() for tests.
#pragma once

#include <cstdint>
#include <kiln/torch.h>
#include <sstream>

namespace kiln::test {

/// Calls of an op that Kiln's kernels ran, over all shapes.
inline std::uint64_t callsByKiln(const std::string& op) {
  std::istringstream lines(report());
  std::uint64_t sum = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(op + " ")) {
      // op, label of two words or more, calls, calls by Kiln, the rest: the columns are fixed
      std::istringstream numbers(line.substr(51));
      std::uint64_t calls = 0, used = 0;
      numbers >> calls >> used;
      sum += used;
    }
  return sum;
}

inline bool reports(const std::string& text) {
  return report().find(text) != std::string::npos;
}

} // namespace kiln::test
