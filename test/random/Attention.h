// An attention that nobody chose: rules, broadcasts, widths, types and sizes drawn. It can be
// printed as MLIR, and made smaller (Shrink.cpp).
#pragma once

#include "test/numerics/Table.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::test {

struct Attention {
  /// A bias or a mask: whether its sizes are the scores', by dimension; else they are 1.
  struct OfScores {
    std::vector<bool> whole; // none: it is not there
    std::string type;
  };

  std::uint64_t seed = 0;
  std::vector<std::int64_t> leading;
  std::int64_t keyHeads = 1, sharing = 1; // heads of queries of one of keys
  std::int64_t queries = 1, keys = 1, width = 8, valueWidth = 8;
  std::string type = "bf16";
  std::string causal = "none";
  std::int64_t windowLeft = -1, windowRight = -1;
  double scale = 0.25, softcap = 0, p = 0;
  OfScores bias, mask;
  std::vector<std::int64_t> queryStarts, keyStarts; // of packed sequences
  bool isConstant = false;                          // sizes are in the text
  bool closesRows = false;                          // every other row of the mask
  bool backward = false;                            // forward and derived backward
  bool isTogether = false; // all gradients in one kernel, of a delta and a log-sum-exp of their own
  std::uint64_t schedules = 0; // 0: default ones; else what they are drawn from
};

Attention drawAttention(std::uint64_t seed);
/// Without schedules.
Case withoutSchedules(const Attention& attention);

} // namespace kiln::test
