// What a schedule costs: bytes over bandwidth, lowered where too few bytes are in flight, plus
// waves, exchanges, launches and the combination of column sums. It ranks the schedules of one
// kernel; what time one takes is told by Calibration.h. A pure function of its arguments: the same
// answer on every machine and every rank.
#pragma once

#include "autotune/CostConstants.h"
#include "codegen/segments/Schedule.h"

namespace kiln::autotune {

/// About microseconds: right to a factor that the schedules of a kernel share.
struct Cost {
  double total = 0;         // the whole kernel, with the one that finishes column sums
  double copy = 0;          // a plain copy of as many bytes
  double bytesInFlight = 0; // per multiprocessor
  double waves = 0;         // rounds of resident blocks
  // What `total` is made of. The first two are joined: the longer counts, and a little more.
  double moving = 0;  // its bytes, with the losses of this schedule against a copy, or instructions
  double waiting = 0; // rounds of blocks, each from its first load to its last store
  double starting = 0;
  double summing = 0; // partial sums down the columns
};

/// `rows`: how many, where the facts do not fix it.
Cost costOf(const rows::Schedule& schedule, const rows::Facts& facts, const Target& target,
            double rows, const CostConstants& k = kCostConstants);

/// Of a kernel over lists of so many elements together.
Cost costOf(const rows::Schedule& schedule, const segments::Facts& facts, const Target& target,
            double elements, const CostConstants& k = kCostConstants);

/// Rows assumed where they are known at run time only.
inline constexpr double kTypicalRows = 65536;
/// Elements of a list, whose lengths no key knows: a layer of a transformer.
inline constexpr double kTypicalElements = 1 << 24;

} // namespace kiln::autotune
