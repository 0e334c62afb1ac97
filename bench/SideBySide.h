// Work that several threads of a benchmark share, such as compiling what is timed later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace kiln::bench {

/// Runs `work(i)`, which does not throw, for all i below `count`, `threads` at a time.
template <class Work> void sideBySide(std::size_t count, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < std::max(1u, threads); ++t)
    running.emplace_back([&] {
      for (std::size_t i; (i = next++) < count;)
        work(i);
    });
}

} // namespace kiln::bench
