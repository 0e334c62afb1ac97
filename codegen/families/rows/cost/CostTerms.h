// The slowdown of a kernel beside a copy of the same bytes, as a sum of cost terms: logarithms of
// factors, one for each inefficiency. This part of the cost model scales with the bytes moved.
// Cost.cpp has the times of waiting. For the files of this folder only.
#pragma once

#include "codegen/families/rows/cost/Cost.h"

#include <algorithm>
#include <cmath>

namespace kiln::rows {

/// Blocks that take several tiles each although they need not. No term of blocks that must was
/// fitted to them: they cost as if each had one tile, and more (Unlikely.cpp).
inline bool loopsNeedlessly(const Schedule& s, const Facts& facts) {
  return s.grid == Grid::resident && !facts.mustLoop(s);
}

/// What one schedule does to one kernel, in the quantities that the constants speak of.
struct Shape {
  Shape(const Schedule& s, const Facts& facts, const Target& target, double rows)
      : once(s.grid == Grid::oneShot || loopsNeedlessly(s, facts)), wide(s.lanes > 32),
        steps(std::log2(double(std::min<std::int64_t>(s.lanes, 32)))),
        exchanges(std::max(0, facts.passes - 1)), chunks(double(s.chunks(facts.width))),
        blocks(std::ceil(rows / double(s.rowsPerBlock())) * double(s.cluster)),
        resident(std::clamp(std::ceil(blocks / target.multiprocessors), 1.0, double(s.blocks))) {
    for (const auto& stream : facts.inputs) {
      double vectorBytes = double(s.vector * stream.bytes);
      accesses += double(s.rows) * chunks * vectorBytes / 16.0;
      loads += double(s.rows) * chunks;
      inFlight += resident * double(s.threads * s.rows) * chunks * vectorBytes;
    }
    held = double(s.rows) * chunks * double(s.vector);
    slots = double(s.blocks) * target.multiprocessors;
    waves = std::max(1.0, blocks / slots);
    rounds = s.grid == Grid::oneShot ? waves : std::ceil(waves);
  }
  bool once; // whether a block has one tile
  bool wide;
  double steps, exchanges, chunks, blocks;
  double resident; // blocks on a multiprocessor: no more than there are
  double accesses = 0, loads = 0, inFlight = 0; // of 16 bytes a thread; vectors a thread; bytes
  double held, slots, waves, rounds;
};

using model::halvings;

/// Of launches the one that overlaps most with the kernel before.
Launch earliestLaunch(const Schedule& s, const Facts& facts, const Target& target);

/// Of what is unlikely, a ring's tiles that begin anywhere, which those of more rows may not.
double looseTerm(const Schedule& s, const Facts& facts, const CostConstants& k);

/// Whether the same schedule by another grid or launch costs less.
bool hasBetterTwin(const Schedule& s, const Facts& facts, const Target& target);

/// Bytes that a pass reads of a row, or of the rows that are the same for all.
double rowBytes(const std::vector<Facts::Stream>& streams, const Facts& facts);

/// Blocks that a multiprocessor has room for, whatever was promised, if threads take so many
/// registers more than estimated.
int roomFor(const Schedule& s, const Facts& facts, const Target& target, const CostConstants& k,
            int more = 0);

/// The sum of all terms of tiles that threads load themselves (CostTerms.cpp).
double tileTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                 const CostConstants& k);

/// The same where tiles come through a ring (RingTerms.cpp).
double ringTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                 const CostConstants& k);
/// What all rows, blocks and stages have of these in common: a bound, since no term is below 0.
double commonRingTerms(const Schedule& s, const Facts& facts, const CostConstants& k);

/// us of a kernel of narrow rows (NarrowRows.cpp), and those that its blocks wait for their rows.
/// `copied`: us of its bytes at the bandwidth.
struct NarrowCost {
  double moving = 0, waiting = 0;
};
NarrowCost narrowCost(const Shape& shape, const Schedule& s, const Facts& facts,
                      const Target& target, double rows, double copied, const CostConstants& k);
/// Issue slots of one of its elements.
double leastInstructions(const Facts& facts, const CostConstants& k);

/// At least so much of either, whatever rows and blocks are.
double leastTerms(const Schedule& s, const Facts& facts, const CostConstants& k);

} // namespace kiln::rows
