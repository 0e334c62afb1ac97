// What kernels cost whose rows begin between the multiples of 8 bytes while weights or sums belong
// to their columns. They move single elements, or vectors that overlap the ends of rows, and then
// issue so many instructions that those, not memory, take the time: on an H200 norms of odd widths
// by vectors of 16 bytes took 1.3 to 2.3 times as long as a copy. Instructions are those of the
// assembler's text for such norms, forward and backward; at which rate they are issued, and what
// else tells schedules apart, was fitted to a tuning of six such norms, and by hand where schedules
// nearly tie. Through a ring vectors that overlap the ends of rows issue fewer: no warp takes two
// ways there, and threads may hold the weights of their columns (1.09 to 1.18 of a copy, but for
// LayerNorm's backward).
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

bool overlapsInRing(const Schedule& s, const Facts& facts) {
  return s.overlaps(facts.width) && s.keep == Keep::ring;
}

/// Those of blocks that copy columns into shared memory, one by one.
double staging(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
               const CostConstants& k) {
  if (s.columns != Columns::shared)
    return 0.0;
  const double blocks =
      s.grid == Grid::oneShot ? shape.blocks : shape.resident * target.multiprocessors;
  const double copies = facts.isSteady(s) ? double(s.threads) / double(s.lanes) : 1.0;
  const double each = overlapsInRing(s, facts) ? k.overlapShifted
                      : facts.isSteady(s)      ? k.narrowShifted
                                               : k.narrowStaged;
  return blocks * copies * each * double(facts.columns.size()) * double(facts.width);
}

/// The same of vectors that overlap the ends of rows and come through a ring.
double overlappingInstructions(const Schedule& s, const Facts& facts, const CostConstants& k) {
  const double columns = facts.holdsColumns(s) ? 0.0 : double(facts.columns.size());
  return k.narrowOperation * facts.operations + k.overlapLoaded * double(facts.inputs.size()) +
         k.overlapStored * double(facts.outputs.size()) + k.overlapColumn * columns;
}

/// Of all threads.
double instructions(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                    double rows, const CostConstants& k) {
  const double vector = double(s.vector), slots = shape.chunks * double(s.lanes) * vector;
  if (overlapsInRing(s, facts))
    return rows * slots * overlappingInstructions(s, facts, k) +
           staging(shape, s, facts, target, k) +
           rows * 2.0 * double(std::min<std::int64_t>(s.lanes, 32)) * vector * k.overlapMasked *
               double(facts.passes) +
           shape.blocks * double(s.threads) *
               (k.narrowRow + k.overlapRow + k.overlapPiece * shape.chunks);
  const double columns = facts.holdsColumns(s) ? 0.0 : double(facts.columns.size());
  const double each =
      instructionsOf(facts, vector, s.keep, k) + k.narrowColumn * columns / std::min(vector, 4.0);
  double count = rows * slots * each + staging(shape, s, facts, target, k);
  const double ofThread =
      double(s.rows) * k.narrowRow + (s.keep == Keep::ring ? 0.0 : k.narrowAddress);
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
  const double narrow = k.narrow * halvings(bytes, 16.0) * (ring ? 0.5 : 1.0);
  if (!ring)
    return narrow + k.underfilled * halvings(shape.inFlight, k.wanted);
  const double stages = std::min(double(s.stages), std::ceil(shape.waves));
  const double flight = stages * double(s.blocks * stageBytes(s, facts));
  return narrow + (overlapsInRing(s, facts) ? k.overlapUnder * halvings(flight, k.overlapBytes)
                                            : k.ringUnder * halvings(flight, k.ringWideBytes));
}

/// What idles of the four schedulers of a multiprocessor, over what works, where a block's warps do
/// not fill all of them alike: rows of 160 lanes took 8 to 17 % longer than those of 128 or 256.
/// Blocks of one or two warps do so together.
double idleSchedulers(const Schedule& s) {
  const double warps = double(s.threads) / 32.0;
  return warps <= 2.0 ? 0.0 : 4.0 * std::ceil(warps / 4.0) / warps - 1.0;
}

/// Whether blocks of the next launch find room early; see ringTerms(). Between three passes the
/// assembler holds a third of a row's elements twice: as loaded, and without the mean.
bool isUneven(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
              const CostConstants& k) {
  const double twice = facts.passes > 2 ? shape.chunks * double(s.vector) / 3.0 : 0.0;
  return s.launch != Launch::plain && shape.waves > 1.0 &&
         roomFor(s, facts, target, k, int(twice)) > s.blocks;
}

/// The logarithm of what both memory and instructions take longer: of threads, lanes and rounds.
double sharedTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                   const CostConstants& k) {
  const double threads = double(s.threads);
  double bytes = double(s.lanes * s.vector) * 4.0; // that lanes write side by side
  for (const Facts::Stream& stream : facts.outputs)
    bytes = std::min(bytes, double(s.lanes * s.vector * stream.bytes));
  double sum = k.smallBlock * halvings(threads, 128.0) + k.largeBlock * halvings(128.0, threads) +
               k.narrowIdle * idleSchedulers(s) + k.pieces * halvings(1.0, shape.chunks) +
               k.shortRun * halvings(bytes, k.run) +
               k.tail * (std::ceil(shape.waves) / shape.waves - 1.0);
  if (s.keep == Keep::ring) {
    sum += k.ringDrain * std::min(1.0, double(s.stages) / shape.waves);
    if (!overlapsInRing(s, facts) && isUneven(shape, s, facts, target, k))
      sum += k.narrowUneven;
  }
  return sum;
}

/// us that blocks wait for rows that no ring brings, and for columns in global memory, which are
/// asked for one after another. Meanwhile only the other blocks use the time.
double waitingFor(const Shape& shape, const Schedule& s, const Facts& facts,
                  const CostConstants& k) {
  double ofRound = 0.0;
  if (s.keep != Keep::ring) {
    const double passes = s.keep == Keep::global ? double(facts.passes) : 1.0;
    ofRound += k.narrowLoad * shape.loads * passes / shape.resident;
  }
  if (s.columns == Columns::global && !facts.holdsColumns(s))
    ofRound += k.narrowFetch * shape.chunks * double(facts.columns.size());
  return ofRound * std::ceil(shape.waves);
}

double sixthNorm(double a, double b) {
  return std::cbrt(std::hypot(a * a * a, b * b * b));
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
  const bool overlaps = overlapsInRing(s, facts);
  double rate = k.issued * target.multiprocessors * (overlaps ? k.overlapIssued : k.narrowIssued) *
                std::min(1.0, std::pow(warps / (overlaps ? k.overlapWarps : k.narrowWarps), 0.3));
  if (shape.resident < 2.0) // all warps wait at the same time
    rate *= 1.0 - k.narrowAlone;
  NarrowCost cost;
  cost.moving = std::exp(sharedTerms(shape, s, facts, target, k)) *
                fourthNorm(copied * std::exp(memoryTerms(shape, s, facts, k)),
                           instructions(shape, s, facts, target, rows, k) / rate);
  if (s.keep == Keep::ring) // whose tiles are small: what a row takes from end to end
    cost.moving = sixthNorm(cost.moving, k.narrowRound * std::ceil(shape.waves));
  cost.waiting = waitingFor(shape, s, facts, k);
  return cost;
}

} // namespace kiln::rows
