// Cost terms of tiles that come through a ring; see CostTerms.h. What counts is that all blocks get
// equally many tiles, that no other block fits beside them, then the bytes in flight.
#include "codegen/families/rows/cost/CostTerms.h"

namespace kiln::rows {
namespace {

/// Bytes that a lane takes out of a stage at once, of the widest input.
double accessOf(const Schedule& s, const Facts& facts) {
  double access = 0.0;
  for (const auto& stream : facts.inputs)
    access = std::max(access, double(s.vector * stream.bytes));
  return access;
}

/// What single elements cost of each byte that is moved, with threads enough.
double singlesTerm(const Schedule& s, const Facts& facts, const CostConstants& k) {
  const double streams = double(facts.inputs.size() + facts.outputs.size());
  return s.vector == 1
             ? k.ringSingles * streams * double(facts.width) / std::max(1.0, facts.bytes(1.0))
             : 0.0;
}

} // namespace

double commonRingTerms(const Schedule& s, const Facts& facts, const CostConstants& k) {
  const double access = accessOf(s, facts), chunks = double(s.chunks(facts.width));
  const double heldOfRow = chunks * double(s.vector);
  double sum = k.ring + k.ringBroad * halvings(16.0, access) + k.pieces * halvings(1.0, chunks) +
               k.ringNarrow * halvings(access, 16.0) + singlesTerm(s, facts, k);
  if (facts.outputs.empty())
    sum += k.ringSumsBroad * halvings(4.0, double(s.vector));
  sum += k.ringIdle * (heldOfRow * double(s.lanes) / double(facts.width) - 1.0);
  if (s.columns == Columns::global)
    for (const auto& stream : facts.columns)
      sum += k.ringColumns * halvings(128.0, double(facts.width * stream.bytes));
  if (s.lanes <= 32)
    return sum;
  return sum + k.ringTeams + k.ringRows * std::log2(double(s.threads) / double(s.lanes)) +
         k.ringFewHeld * halvings(heldOfRow, 4.0) + k.ringLittleHeld * halvings(heldOfRow, 8.0);
}

double ringTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                 const CostConstants& k) {
  double tile = 0.0;
  for (const auto& stream : facts.inputs)
    tile = std::max(tile, double(s.rowsPerBlock() * facts.width * stream.bytes));
  const double stages = std::min(double(s.stages), std::ceil(shape.waves)); // others stay empty
  const double flight = stages * double(s.blocks * stageBytes(s, facts));
  const double threads = double(s.threads * s.blocks);
  const double enough = facts.passes > 1 ? k.ringReducing : k.ringMapping;
  double sum = commonRingTerms(s, facts, k);
  sum += k.ringSmallTile * halvings(tile, 8192.0) + k.ringFewThreads * halvings(threads, enough);
  sum += k.ringUnder * halvings(flight, shape.wide ? k.ringWideBytes : k.ringBytes) +
         k.ringOver * halvings(k.ringBytes * 1.1, flight);
  sum += k.ringBlocks * std::abs(std::log2(double(s.blocks) / 2.0));
  sum += singlesTerm(s, facts, k) * std::max(0.0, 1024.0 / threads - 1.0);
  if (s.columns == Columns::shared)
    for (const auto& stream : facts.columns)
      sum += k.ringConflicts * halvings(16.0, double(s.vector * stream.bytes)) /
             double(s.blocks * s.rowsPerBlock());
  if (shape.waves > 1.0) {
    sum += k.ringTail * (shape.rounds - shape.waves) / shape.waves;
    sum += k.ringDrain * std::min(1.0, stages / shape.waves);
    // Blocks that the next launch starts early take what room there is where they come first, and
    // the rest of them is placed unevenly.
    if (s.launch != Launch::plain && roomFor(s, facts, target, k) > s.blocks)
      sum += k.ringUneven;
  }
  if (!shape.wide)
    return sum + k.ringManyWarps * halvings(enough, threads);
  sum += k.ringHeld * halvings(16.0, shape.held) + k.ringWideThreads * halvings(threads, 1280.0);
  return sum + k.ringAlone * halvings(4.0, accessOf(s, facts)) * double(s.lanes) / threads;
}

} // namespace kiln::rows
