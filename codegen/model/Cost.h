// What a schedule costs: bytes over bandwidth, lowered where too few bytes are in flight, plus
// waves, exchanges, launches and the combination of column sums. It ranks the schedules of one
// kernel; what time one takes is told by Calibration.h. Families compute it (families/*/cost/), as
// a pure function: the same answer on every machine and every rank.
#pragma once

#include "codegen/model/CostConstants.h"

#include <cmath>

namespace kiln::model {

/// About microseconds: right to a factor that the schedules of a kernel share.
struct Cost {
  double total = 0;         // the whole kernel, with the one that finishes column sums
  double copy = 0;          // a plain copy of as many bytes
  double bytesInFlight = 0; // per multiprocessor
  double waves = 0;         // rounds of resident blocks
  // What `total` is made of. The first two are joined: the longer counts, and a little more.
  double moving =
      0; // its bytes, with the cost terms of this schedule beside a copy, or instructions
  double waiting = 0; // rounds of blocks, each from its first load to its last store
  double starting = 0;
  double summing = 0; // partial sums down the columns

  /// A kernel that follows: `waves` and `bytesInFlight` are the first one's.
  Cost& operator+=(const Cost& next) {
    for (double Cost::* part : {&Cost::total, &Cost::copy, &Cost::moving, &Cost::waiting,
                                &Cost::starting, &Cost::summing})
      this->*part += next.*part;
    if (waves == 0)
      waves = next.waves, bytesInFlight = next.bytesInFlight;
    return *this;
  }
};

/// How often a number doubles from one value to the other, with fractions; 0: it does not grow.
inline double halvings(double from, double to) {
  return to > from ? std::log2(to / from) : 0.0; // asked for every schedule, and mostly of none
}

/// Rows assumed where they are known at run time only.
inline constexpr double kTypicalRows = 65536;
/// Elements of a list, whose lengths no key knows: a layer of a transformer.
inline constexpr double kTypicalElements = 1 << 24;

} // namespace kiln::model
