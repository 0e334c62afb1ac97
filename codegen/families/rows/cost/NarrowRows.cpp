// What kernels cost whose rows begin between the multiples of 8 bytes while weights or sums belong
// to their columns. They move single elements, or vectors that overlap the ends of rows, and then
// issue so many instructions that those, not memory, take the time: on an H200 norms of odd widths
// by vectors of 16 bytes took 1.3 to 2.3 times as long as a copy, at 0.6 of the multiprocessors'
// rate. Instructions are those of the assembler's text for such norms, forward and backward.
#include "codegen/families/rows/cost/CostTerms.h"

namespace kiln::rows {
namespace {

/// Instructions for an element in its row: operations, and each of its tensors moved and converted,
/// of wide vectors together. Through shared memory they are moved once more, and for each pass.
double instructionsOf(const Facts& facts, double vector, Keep keep, const CostConstants& k) {
  const double moves = keep == Keep::shared   ? 2.0 + facts.passes
                       : keep == Keep::global ? double(facts.passes)
                                              : 1.0;
  const double tensors =
      moves * double(facts.inputs.size()) + k.narrowStore * double(facts.outputs.size());
  return k.narrowOperation * facts.operations + tensors / vector;
}

/// Those of blocks that copy columns into shared memory, one by one.
double staging(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
               const CostConstants& k) {
  if (s.columns != Columns::shared)
    return 0.0;
  const double blocks =
      s.grid == Grid::oneShot ? shape.blocks : shape.resident * target.multiprocessors;
  const double copies = facts.isSteady(s) ? double(s.threads) / double(s.lanes) : 1.0;
  const double each = facts.isSteady(s) ? k.narrowShifted : k.narrowStaged;
  return blocks * copies * each * double(facts.columns.size()) * double(facts.width);
}

/// Of all threads.
double instructions(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                    double rows, const CostConstants& k) {
  const bool ring = s.keep == Keep::ring;
  const double vector = double(s.vector), slots = shape.chunks * double(s.lanes) * vector;
  // In a ring's loop the assembler fetches what describes global memory anew for each load.
  const double column = k.narrowColumn * (ring && s.columns == Columns::global ? 4.0 : 1.0);
  const double each =
      instructionsOf(facts, vector, s.keep, k) +
      column * double(facts.columns.size()) / (double(s.rows) * std::min(vector, 4.0));
  double count = rows * slots * each + staging(shape, s, facts, target, k);
  const double ofThread =
      k.narrowThread + double(s.rows) * k.narrowRow + (ring ? 0.0 : k.narrowAddress);
  count += shape.blocks * double(s.threads) * ofThread;
  if (s.overlaps(facts.width)) // of the warps that have an end, for each of their elements
    count += rows * 64.0 * vector * k.narrowEnd * double(facts.passes);
  return count;
}

/// The logarithm of what memory takes longer than by a copy.
double memoryTerms(const Shape& shape, const Schedule& s, const Facts& facts,
                   const CostConstants& k) {
  const bool ring = s.keep == Keep::ring;
  double bytes = 16.0;
  for (const Facts::Stream& stream : facts.outputs)
    bytes = std::min(bytes, double(s.vector * stream.bytes));
  double sum = k.narrow * halvings(bytes, 16.0) * (ring ? 0.5 : 1.0);
  const double stages = std::min(double(s.stages), std::ceil(shape.waves));
  sum += ring ? k.ringUnder *
                    halvings(stages * double(s.blocks * stageBytes(s, facts)), k.ringWideBytes)
              : k.underfilled * halvings(shape.inFlight, k.wanted);
  return sum + k.tail * (std::ceil(shape.waves) / shape.waves - 1.0);
}

double fourthNorm(double a, double b) {
  return std::sqrt(std::hypot(a * a, b * b));
}

} // namespace

double leastInstructions(const Facts& facts, const CostConstants& k) {
  return instructionsOf(facts, 1.0, Keep::registers, k) / k.narrowIssued;
}

NarrowCost narrowCost(const Shape& shape, const Schedule& s, const Facts& facts,
                      const Target& target, double rows, double copied, const CostConstants& k) {
  const double warps = shape.resident * double(s.threads) / 32.0;
  double rate = k.issued * target.multiprocessors * k.narrowIssued *
                std::min(1.0, std::pow(warps / k.narrowWarps, 0.3));
  if (shape.wide) // the warps of a block wait together
    rate *= 1.0 - k.narrowAlone / (shape.resident * shape.resident);
  NarrowCost cost;
  cost.moving = fourthNorm(copied * std::exp(memoryTerms(shape, s, facts, k)),
                           instructions(shape, s, facts, target, rows, k) / rate);
  // Where blocks wait for a round's rows, only others use the time.
  cost.waiting = (s.keep == Keep::ring ? k.narrowRing : k.narrowRound) * std::ceil(shape.waves) /
                 shape.resident;
  return cost;
}

} // namespace kiln::rows
