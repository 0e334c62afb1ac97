// What a schedule costs, predicted: bytes over bandwidth, lowered where too few bytes are in
// flight, plus waves, exchanges, launches and the combination of column sums. A pure function
// of its arguments: the same answer on every machine and every rank.
#pragma once

#include "codegen/segments/Schedule.h"

namespace kiln::autotune {

struct Prediction {
  double microseconds = 0;     // the whole kernel, with the one that finishes column sums
  double copyMicroseconds = 0; // a plain copy of as many bytes
  double bytesInFlight = 0;    // per multiprocessor
  double waves = 0;            // rounds of resident blocks
  // What `microseconds` is made of. The first two are joined: the longer counts, and a little more.
  double moving = 0;  // its bytes, with the losses of this schedule against a copy, or instructions
  double waiting = 0; // rounds of blocks, each from its first load to its last store
  double starting = 0;
  double summing = 0; // partial sums down the columns
};

/// `rows`: how many, where the facts do not fix it.
Prediction predict(const rows::Schedule& schedule, const rows::Facts& facts, const Target& target,
                   double rows);

/// Of a kernel over lists of so many elements together.
Prediction predict(const rows::Schedule& schedule, const segments::Facts& facts,
                   const Target& target, double elements);

/// Rows assumed where they are known at run time only.
inline constexpr double kTypicalRows = 65536;
/// Elements of a list, whose lengths no key knows: a layer of a transformer.
inline constexpr double kTypicalElements = 1 << 24;

} // namespace kiln::autotune
