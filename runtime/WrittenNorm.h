// Norms that a model writes out in single ops (a mean over the last dimension, an inverse root,
// products), as T5 and Llama do: no router sees them as one. Two calls of them are looked at on
// their way to ATen, in runtime/ops/WrittenNorm.cpp, so that the report can tell.
#pragma once

#include "kiln/kiln.h"

#include <span>

namespace kiln::runtime {

struct Route;

/// Of the two; they take no call. Installed beside routes().
std::span<Route* const> observers();

/// What a thread has seen of a norm, and whether it is to look.
struct WrittenNorm {
  std::int64_t rows = 0, width = 0; // of the latest mean over a last dimension; 0 rows: none
  bool isMuted = false;

  static WrittenNorm& ofThread() {
    static thread_local WrittenNorm one;
    return one;
  }
};

/// For a scope: what is computed there is ATen's or Kiln's own way to compute one op.
class NoWrittenNorm {
 public:
  NoWrittenNorm() : before(WrittenNorm::ofThread().isMuted) {
    WrittenNorm::ofThread().isMuted = true;
  }
  ~NoWrittenNorm() { WrittenNorm::ofThread().isMuted = before; }
  NoWrittenNorm(const NoWrittenNorm&) = delete;
  NoWrittenNorm& operator=(const NoWrittenNorm&) = delete;

 private:
  const bool before;
};

} // namespace kiln::runtime
