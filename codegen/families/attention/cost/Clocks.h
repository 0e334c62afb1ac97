// How long a multiprocessor is at work on an attention kernel, by who computes products, without
// what memory takes.
#pragma once

#include "codegen/families/attention/Schedule.h"

namespace kiln::attention {

/// Multiply-adds a score.
double productsOf(const Facts& facts, Products by);

/// How blocks walk: each has a tile of `rows` and takes `steps` tiles of `step` of the others;
/// where attention is causal so many on average, and `longest` at most. Clusters of three blocks
/// take the place of four: 40 of them took two rounds on an H200.
struct Walk {
  double rows, step, blocks, steps, longest;
  double resident; // blocks on a multiprocessor
  double cluster;  // blocks
  double places(const Target& target) const {
    return static_cast<double>(cluster > 2 ? target.multiprocessors * 3 / 4
                                           : target.multiprocessors) *
           resident;
  }
  double rounds(const Target& target) const { // of resident blocks
    return std::ceil(blocks / places(target));
  }
  /// That a place on a multiprocessor takes one after the other. Blocks of different lengths begin
  /// when others end, the longest first, so that they even out as far as the longest lets them.
  double stepsInAll(const Target& target) const {
    if (steps == longest)
      return rounds(target) * steps;
    return std::max(longest, (blocks / places(target) + 0.25) * steps);
  }
};
Walk walkOf(const Schedule& schedule, const Facts& facts, const Target& target);

/// What threads issue that have so many rows.
double instructionsByThreads(const Facts& facts, double rows);
/// Clocks of a multiprocessor, of all blocks that it takes.
double clocksOf(const Walk& walk, const Schedule& schedule, const Facts& facts,
                const Target& target);

} // namespace kiln::attention
