// Losses of tiles that threads load themselves, and of lists; see Losses.h. "Each halving" and
// "each doubling" count fractions. Kernels of one pass, which only map elements, are told from
// those that reduce rows: no thread of theirs waits for another, so that few bytes in flight
// suffice.
#include "autotune/Losses.h"

namespace kiln::autotune {
namespace {

constexpr double kUnderfilled = 0.14; // each halving of the bytes in flight on a multiprocessor
constexpr double kWanted = 49152, kWantedMapping = 16384; // below these; the latter of one pass
constexpr double kArithmetic = 0.032;                     // each scalar operation a byte
constexpr double kTogether = 0.41; // more, each doubling of 128 threads, which do not load then
// Each operation a byte above those that memory hides: where tiles pass through shared memory,
// which takes instructions too; each doubling of pieces in registers, of which all but the first
// are asked for behind the operations on the one before.
constexpr double kHidden = 4.0, kHinderedShared = 0.087, kHinderedPieces = 0.051;
constexpr double kNarrow = 0.045; // each halving of a 16-byte access
constexpr double kOverlap = 0.14; // of the share of vectors that may overlap an end of a row
constexpr double kGaps = 0.11;    // each doubling of the gaps between lanes of one access
constexpr double kRun = 64, kShortRun = 0.15; // bytes that lanes read side by side: each halving
// Of the share of a round that idles at the end: of memory, which the blocks that are left share
// with fewer others; of each operation a byte, which nobody else does.
constexpr double kTail = 0.34, kTailBusy = 0.054;
constexpr double kShuffles = 0.13; // each shuffle of a lane, a byte of its row
constexpr double kTeams = 0.069;   // an exchange between warps
// One block a tile: much in flight a thread, blocks of 128 to 256 threads, 8 rows to store at once.
constexpr double kFewAccesses = 0.12, kManyAccesses = 0.072; // below 2, above 4 of 16 bytes
constexpr double kFewMapped = 0.01, kManyMapped = 0.021;     // of one pass: below, above 2
constexpr double kSmallBlock = 0.054, kLargeBlock = 0.047;   // below 128, above 256 threads
constexpr double kFewRows = 0.12;                            // no row but one a block
// Columns that every block reads: of their bytes over the rows'. Through shared memory each block
// reads them once, however many rows it has, but in vectors of more than 16 bytes lanes meet at
// banks: each doubling of them, over the rows that a thread reads them for.
constexpr double kColumnsAgain = 0.053, kColumnsCopied = 0.05, kColumnsConflict = 0.03;
// Of a single row of columns the assembler starts the copies behind the first pass over a tile in
// registers. Each halving of 4 times the bytes wanted, if that pass stores nothing meanwhile.
constexpr double kStagedLate = 0.062;
constexpr double kTilesShared = 0.086; // rows kept in shared memory, to be reduced by one warp
constexpr double kWideShared = 0.021;  // by several warps, or not at all
constexpr double kWideHeld = 0.065;    // by several: each doubling of 16 elements held for 3 passes
constexpr double kLittleAtOnce = 0.18; // kept nowhere although read once: few loads at a time
constexpr double kAtBarriers = 0.083;  // of rows of several warps, where one block alone waits
constexpr double kClustered = 0.075;   // where it waits for a block elsewhere
// Elements that a thread holds: where registers are few, the assembler may spill, and loads wait.
// The latter in one pass, where the operations on all of them mingle.
constexpr double kManyHeld = 32, kManyMappedHeld = 16, kCrowded = 0.058;
constexpr int kUnforeseen = 6; // registers that the assembler takes beside the estimated
// Resident blocks, which loop: the loads of one tile suffice, columns stay in the cache.
constexpr double kFewAccessesLooping = 0.065, kManyAccessesLooping = 0.026; // below 1, above 2
constexpr double kSmallBlockLooping = 0.004, kLargeBlockLooping = 0.013;    // below 256, above 640
constexpr double kColumnsStaged = 0.02;

/// The logarithm of the loss of a stream of accesses below 16 bytes or with gaps between lanes: a
/// vector that is moved in parts leaves them.
double accessLoss(const rows::Schedule& s, const rows::Facts& facts) {
  if (s.overlaps(facts.width))
    return kOverlap * std::min(1.0, 2.0 / double(s.chunks(facts.width)));
  const bool pieces = s.chunks(facts.width) > 1; // else those of the next row read on
  double worst = 0.0;
  auto look = [&](const rows::Facts::Stream& stream) {
    double wanted = double(s.vector * stream.bytes);
    double moved = std::min(16.0, double(std::min(s.vector, stream.widest) * stream.bytes));
    const double run = pieces ? double(s.lanes) * wanted : kRun;
    worst = std::max(worst, kNarrow * std::log2(16.0 / moved) + kGaps * halvings(moved, wanted) +
                                kShortRun * halvings(run, kRun));
  };
  for (const auto& stream : facts.inputs)
    look(stream);
  for (const auto& stream : facts.outputs)
    look(stream);
  return worst;
}

/// Scalar operations for each byte moved.
double operationsOfByte(const rows::Schedule& s, const rows::Facts& facts) {
  const double operations = facts.operations + double(facts.columnOperations) / double(s.rows);
  return operations * double(facts.width) / std::max(1.0, facts.bytes(1.0));
}

/// The logarithm of what operations add that loads and stores do not hide.
double arithmeticLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const double ofByte = operationsOfByte(s, facts);
  double hindered = s.keep == rows::Keep::shared ? kHinderedShared : 0.0;
  if (s.keep == rows::Keep::registers)
    hindered = kHinderedPieces * std::log2(shape.chunks);
  return kArithmetic * ofByte * (1.0 + kTogether * halvings(128.0, double(s.threads * s.cluster))) +
         hindered * std::max(0.0, ofByte - kHidden);
}

/// Of columns that the blocks of a grid read, one block a tile.
double columnsLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const bool staged = s.columns == rows::Columns::shared;
  const double bytesLoaded = rowBytes(facts.inputs, facts);
  double sum = 0.0;
  if (bytesLoaded > 0.0)
    sum = (staged ? kColumnsCopied : kColumnsAgain) * rowBytes(facts.columns, facts) /
          (bytesLoaded * double(staged ? s.rowsPerBlock() : s.rows));
  if (!staged)
    return sum;
  for (const auto& stream : facts.columns)
    sum += kColumnsConflict * halvings(16.0, double(s.vector * stream.bytes)) / double(s.rows);
  if (s.keep == rows::Keep::registers && facts.columns.size() == 1 && facts.outputs.size() == 1)
    sum += kStagedLate * halvings(shape.inFlight, 4.0 * kWanted);
  return sum;
}

/// Of the size of blocks and tiles.
double sizeLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const double accesses =
      std::max(shape.accesses, 1.0 / 16.0) / std::max<double>(1.0, double(facts.inputs.size()));
  const double threads = double(s.threads * s.cluster); // that meet at a barrier
  if (!shape.once)
    return kFewAccessesLooping * halvings(accesses, 1.0) +
           kManyAccessesLooping * halvings(2.0, accesses) +
           kSmallBlockLooping * halvings(threads, 256.0) +
           kLargeBlockLooping * halvings(640.0, threads);
  double sum = kSmallBlock * halvings(threads, 128.0) + kLargeBlock * halvings(256.0, threads);
  if (facts.rowOutputs > 0)
    sum += kFewRows * std::max(0.0, 1.0 - double(s.rowsPerBlock()) / 8.0);
  if (facts.passes == 1)
    return sum + kFewMapped * halvings(accesses, 2.0) + kManyMapped * halvings(2.0, accesses);
  return sum + kFewAccesses * halvings(accesses, 2.0) + kManyAccesses * halvings(4.0, accesses);
}

/// Of where rows are kept.
double keepLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
                const Target& target) {
  const bool maps = facts.passes == 1;
  double sum = 0.0;
  if (s.keep == rows::Keep::shared)
    sum += shape.wide || maps ? kWideShared : kTilesShared;
  if (s.keep == rows::Keep::global && maps)
    sum += kLittleAtOnce;
  if (shape.wide && s.keep == rows::Keep::registers && facts.passes > 2)
    sum += kWideHeld * halvings(16.0, shape.held);
  if (shape.held >= (maps ? kManyMappedHeld : kManyHeld) && roomFor(s, facts, target) < s.blocks)
    sum += kCrowded;
  return sum;
}

} // namespace

double rowBytes(const std::vector<rows::Facts::Stream>& streams, const rows::Facts& facts) {
  double bytes = 0.0;
  for (const auto& stream : streams)
    bytes += double(stream.bytes * facts.width);
  return bytes;
}

int roomFor(const rows::Schedule& s, const rows::Facts& facts, const Target& target) {
  const int registers = int(rows::estimatedRegisters(s, facts)) + kUnforeseen;
  return residentBlocks(target, int(s.allThreads()), std::min(registers, target.registersPerThread),
                        rows::sharedBytes(s, facts));
}

double tileLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
                const Target& target) {
  const bool maps = facts.passes == 1;
  double sum = accessLoss(s, facts) + arithmeticLoss(shape, s, facts) + sizeLoss(shape, s, facts) +
               keepLoss(shape, s, facts, target);
  if (!facts.inputs.empty())
    sum += kUnderfilled * halvings(shape.inFlight, maps ? kWantedMapping : kWanted);
  if (!maps)
    sum += kPieces * std::log2(shape.chunks);
  sum += kShuffles * shape.steps * double(facts.reductions * s.lanes) /
         std::max(1.0, facts.bytes(1.0));
  const double idle = std::ceil(shape.waves) / shape.waves - 1.0;
  sum += idle * (kTail / shape.waves + kTailBusy * operationsOfByte(s, facts));
  if (shape.wide && shape.exchanges > 0.0)
    sum += kTeams + kAtBarriers * double(s.cluster) / shape.resident +
           (s.cluster > 1 ? kClustered : 0.0);
  if (shape.once)
    return sum + columnsLoss(shape, s, facts);
  return sum + (s.columns == rows::Columns::shared ? kColumnsStaged : 0.0);
}

/// The bytes that are in flight count.
double listLoss(const rows::Schedule& s, const segments::Facts& facts, double inFlight) {
  return kUnderfilled * halvings(inFlight, kWanted) +
         kNarrow * halvings(double(s.vector * facts.widestBytes), 16.0) +
         kSmallBlock * halvings(double(s.threads), 128.0) +
         kLargeBlock * halvings(256.0, double(s.threads));
}

} // namespace kiln::autotune
