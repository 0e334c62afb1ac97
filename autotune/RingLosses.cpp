// Losses of tiles that come through a ring; see Losses.h. What counts is that all blocks get
// equally many tiles, that no other block fits beside them, then the bytes in flight.
#include "autotune/Losses.h"

namespace kiln::autotune {
namespace {

constexpr double kRing = 0.029;                            // any ring
constexpr double kRingNarrow = 0.0073, kRingBroad = 0.068; // each halving, doubling of 16 bytes
constexpr double kRingSmallTile = 0.01;                    // each halving below 8 KB
constexpr double kRingBytes = 168e3;                       // in flight on a multiprocessor
constexpr double kRingWideBytes = 64e3; // enough of them where a row needs several warps
constexpr double kRingUnder = 0.079, kRingOver = 0.041; // each halving, doubling of them
constexpr double kRingBlocks = 0.017;                   // each halving, doubling of 2 blocks
constexpr double kRingReducing = 448,
                 kRingMapping = 1024;     // threads enough with, without reductions
constexpr double kRingFewThreads = 0.062; // each halving below that
constexpr double kRingManyWarps = 0.03;   // each doubling above: a fence a warp and tile
constexpr double kRingColumns = 0.013;    // columns read for every tile: each doubling of 128 bytes
// Staged columns in vectors of more than 16 bytes, which meet at banks: each doubling of them, over
// the rows at work, which hide it.
constexpr double kRingConflicts = 0.38;
constexpr double kRingTail = 0.39;    // of the share of a round without work
constexpr double kRingUneven = 0.084; // room for a block more than are promised
constexpr double kRingDrain = 0.25;   // of the share of tiles during which nothing is left to load
constexpr double kRingSingles = 0.2;  // single elements: each of a byte moved
constexpr double kRingIdle = 0.05;    // of the share of lanes without a column
// Of these, where a row needs several warps.
constexpr double kRingTeams = 0.021, kRingRows = 0.0028; // any; each doubling of rows at a barrier
constexpr double kRingHeld = 0.044;                      // each doubling of 16 elements a thread
constexpr double kRingFewHeld = 0.22;                    // each halving of 4 elements of a row
constexpr double kRingLittleHeld = 0.073;                // each halving of 8
constexpr double kRingWideThreads = 0.01;                // each halving below 1280 threads
// Vectors of more than 4 bytes take several turns at shared memory, which only other rows at work
// hide: each doubling, over the teams of lanes on a multiprocessor.
constexpr double kRingAlone = 0.08;

} // namespace

double ringLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
                const Target& target) {
  double access = 0.0, tile = 0.0;
  for (const auto& stream : facts.inputs) {
    access = std::max(access, double(s.vector * stream.bytes));
    tile = std::max(tile, double(s.rowsPerBlock() * facts.width * stream.bytes));
  }
  const double stages = std::min(double(s.stages), std::ceil(shape.waves)); // others stay empty
  const double flight = stages * double(s.blocks * rows::stageBytes(s, facts));
  const double threads = double(s.threads * s.blocks);
  const double enough = facts.passes > 1 ? kRingReducing : kRingMapping;
  const double slots = shape.chunks * double(s.lanes * s.vector);
  double sum = kRing + kRingBroad * halvings(16.0, access) + kPieces * std::log2(shape.chunks);
  sum += kRingSmallTile * halvings(tile, 8192.0) + kRingFewThreads * halvings(threads, enough);
  sum += kRingUnder * halvings(flight, shape.wide ? kRingWideBytes : kRingBytes) +
         kRingOver * halvings(kRingBytes * 1.1, flight);
  sum += kRingBlocks * std::abs(std::log2(double(s.blocks) / 2.0));
  const double streams = double(facts.inputs.size() + facts.outputs.size());
  if (s.vector == 1)
    sum += kRingSingles * streams * double(facts.width) / std::max(1.0, facts.bytes(1.0)) *
           std::max(1.0, 1024.0 / threads);
  sum += kRingIdle * (slots / double(facts.width) - 1.0);
  for (const auto& stream : facts.columns)
    sum += s.columns == rows::Columns::global
               ? kRingColumns * halvings(128.0, double(facts.width * stream.bytes))
               : kRingConflicts * halvings(16.0, double(s.vector * stream.bytes)) /
                     double(s.blocks * s.rowsPerBlock());
  if (shape.waves > 1.0) {
    sum += kRingTail * (shape.rounds - shape.waves) / shape.waves;
    sum += kRingDrain * std::min(1.0, stages / shape.waves);
    // Blocks that the next launch starts early take what room there is where they come first, and
    // the rest of them is placed unevenly.
    if (s.launch != rows::Launch::plain && roomFor(s, facts, target) > s.blocks)
      sum += kRingUneven;
  }
  sum += kRingNarrow * halvings(access, 16.0);
  if (!shape.wide)
    return sum + kRingManyWarps * halvings(enough, threads);
  sum += kRingTeams + kRingRows * std::log2(double(s.threads) / double(s.lanes));
  sum += kRingHeld * halvings(16.0, shape.held) + kRingWideThreads * halvings(threads, 1280.0);
  const double heldOfRow = shape.chunks * double(s.vector);
  sum += kRingFewHeld * halvings(heldOfRow, 4.0) + kRingLittleHeld * halvings(heldOfRow, 8.0);
  const double teams = double(s.blocks * s.threads) / double(s.lanes);
  return sum + kRingAlone * halvings(4.0, access) / teams;
}

} // namespace kiln::autotune
