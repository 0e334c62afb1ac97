// See Cost.h. The constants are a fit to 8,000 timed schedules of AlphaFold's LayerNorms and of the
// language models' rows, forward and backward, on an H200 (bench/sweep.cpp makes the data), then to
// the 4,200 that tuning these timed (bench/tune_store.sh), which lie nearer to the best. Other GPUs
// scale with their bandwidth, their number of multiprocessors and their L2 cache.
//
// A kernel either keeps memory busy, and then takes as long as a copy times a loss for each thing
// that a schedule does less well than a copy, or it waits, and then takes as long as the rounds of
// blocks that a multiprocessor works through. The two are joined smoothly.
#include "autotune/Cost.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

constexpr double kReachable = 0.943; // of the nominal bandwidth, by the best copy
constexpr double kLaunch = 0.98;     // us to start and drain a kernel
constexpr double kPlainLaunch = 0.5; // us more without programmatic launch
constexpr double kShareOfOne = 2.5;  // fair shares of bandwidth that one multiprocessor can take

// Logarithms of losses; "each halving" and "each doubling" count fractions.
constexpr double kUnderfilled = 0.097; // each halving of the bytes in flight below kWanted
constexpr double kWanted = 49152;      // bytes in flight a multiprocessor
constexpr double kArithmetic = 0.017;  // each scalar operation a byte
constexpr double kTogether = 0.41;     // more, each doubling of 128 threads, which do not load then
// Each operation a byte above those that memory hides: where tiles pass through shared memory,
// which takes instructions too; each doubling of pieces in registers, of which all but the first
// are asked for behind the operations on the one before.
constexpr double kHidden = 4.0, kHinderedShared = 0.07, kHinderedPieces = 0.04;
constexpr double kNarrow = 0.047; // each halving of a 16-byte access
constexpr double kOverlap = 0.25; // of the share of vectors that may overlap an end of a row
constexpr double kGaps = 0.097;   // each doubling of the gaps between lanes of one access
constexpr double kRun = 64, kShortRun = 0.15; // bytes that lanes read side by side: each halving
constexpr double kPieces = 0.025;  // each doubling of the pieces that a thread has of a row
constexpr double kAgain = 0.48;    // of the bytes that another pass reads from the L2 cache
constexpr double kTail = 0.45;     // of the share of a round that idles at the end
constexpr double kShuffles = 0.08; // each shuffle of a lane, a byte of its row
constexpr double kTeams = 0.033;   // an exchange between warps
// One block a tile: much in flight a thread, blocks of 128 to 256 threads, 8 rows to store at once.
constexpr double kFewAccesses = 0.12, kManyAccesses = 0.028; // below 2, above 4 of 16 bytes
constexpr double kSmallBlock = 0.024, kLargeBlock = 0.037;   // below 128, above 256 threads
constexpr double kFewRows = 0.086;                           // no row but one a block
constexpr double kColumnsAgain = 0.061; // read by every block: of their bytes over the rows'
// Of a single row of columns the assembler starts the copies behind the first pass over a tile in
// registers. Each halving of 4 times the bytes wanted, if that pass stores nothing meanwhile.
constexpr double kStagedLate = 0.07;
constexpr double kTilesShared = 0.066; // rows kept in shared memory
constexpr double kWideShared = 0.033;  // the same where a row needs several warps
constexpr double kWideHeld = 0.089; // of such rows, each doubling of 16 elements held for 3 passes
constexpr double kLittleAtOnce = 0.17; // kept nowhere although read once: few loads at a time
constexpr double kAtBarriers = 0.099;  // of such rows, where one block alone waits
constexpr double kClustered = 0.075;   // where it waits for a block elsewhere
constexpr double kManyHeld = 32;       // elements that a thread holds: where registers are few,
constexpr double kCrowded = 0.03;      // the assembler may spill
// Resident blocks, which loop: the loads of one tile suffice, columns stay in the cache.
constexpr double kFewAccessesLooping = 0.065, kManyAccessesLooping = 0.03; // below 1, above 2
constexpr double kSmallBlockLooping = 0.004, kLargeBlockLooping = 0.013;   // below 256, above 640
constexpr double kColumnsStaged = 0.022;

// Tiles that come through a ring: a fit to 1,900 timed schedules of the backward of LayerNorm and
// RMSNorm, then as above. What counts is that all blocks get equally many tiles, that no other
// block fits beside them, then the bytes in flight.
constexpr double kRing = 0.029;                           // any ring
constexpr double kRingNarrow = 0.014, kRingBroad = 0.064; // each halving, doubling of 16 bytes
constexpr double kRingSmallTile = 0.012;                  // each halving below 8 KB
constexpr double kRingBytes = 150e3;                      // in flight on a multiprocessor
constexpr double kRingWideBytes = 64e3; // enough of them where a row needs several warps
constexpr double kRingUnder = 0.04, kRingOver = 0.049; // each halving, doubling of them
constexpr double kRingBlocks = 0.033;                  // each halving, doubling of 2 blocks
constexpr double kRingReducing = 448,
                 kRingMapping = 1024;     // threads enough with, without reductions
constexpr double kRingFewThreads = 0.046; // each halving below that
constexpr double kRingManyWarps = 0.03;   // each doubling above: a fence a warp and tile
constexpr double kRingColumns = 0.032;    // columns read for every tile: each doubling of 128 bytes
// Staged columns in vectors of more than 16 bytes, which meet at banks: each doubling of them, over
// the rows at work, which hide it.
constexpr double kRingConflicts = 0.13;
constexpr double kRingTail = 0.59;    // of the share of a round without work
constexpr double kRingUneven = 0.094; // room for a block more than are promised
constexpr int kUnforeseen = 6;        // registers that the assembler takes beside the estimated
constexpr double kRingDrain = 0.089;  // of the share of tiles during which nothing is left to load
constexpr double kRingSingles = 0.2;  // single elements: each of a byte moved
constexpr double kRingIdle = 0.05;    // of the share of lanes without a column
// Of these, where a row needs several warps.
constexpr double kRingTeams = 0.021, kRingRows = 0.008; // any; each doubling of rows at a barrier
constexpr double kRingHeld = 0.035;                     // each doubling of 16 elements a thread
constexpr double kRingFewHeld = 0.2;                    // each halving of 4 elements of a row
constexpr double kRingLittleHeld = 0.073;               // each halving of 8
constexpr double kRingWideThreads = 0.03;               // each halving below 1280 threads
constexpr double kRingWideNarrow = 0.051;               // each halving of 8 bytes

// us of a round.
constexpr double kElement = 0.027;      // an element that a thread holds
constexpr double kRingElement = 0.034;  // the same of a ring's tile
constexpr double kSharedAccess = 0.017; // an access to shared memory
constexpr double kAccess = 0.027;       // an access of a thread
constexpr double kStep = 0.0042;        // a step of an exchange between lanes
constexpr double kBarrier = 0.16;       // an exchange between warps
constexpr double kGather = 0.026;       // a value that it gathers
constexpr double kColumnsHeld = 8;      // elements of them that a thread can ask for with its rows'
constexpr double kColumnsLate = 0.27;   // more are asked for only after the exchanges
constexpr double kColumnStaged = 0.0084; // an element of them that a thread puts into shared memory
constexpr double kColumnsStage = 0.11;   // the barrier behind that
constexpr double kRowsStaged = 0.14;     // the barrier before values of rows are stored together
constexpr double kThreads = 0.2, kRingThreads = 0.66; // 1024 threads in a block
constexpr double kSingle = 0.15; // a value that a ring's mover copies by itself
// us of sums down the columns.
constexpr double kFinish = 1.3;       // the kernel that adds up partial sums
constexpr double kFinishAhead = 0.55; // while the next kernel fills its ring
constexpr double kPartials = 5.4e-6;  // a partial sum
constexpr double kCombine = 7e-5;     // a column that a team hands to the others of its block
constexpr double kTie = 1e-4;         // a block promised: the fewer registers given up, the better

double halvings(double from, double to) {
  return to > from ? std::log2(to / from) : 0.0; // asked for every schedule, and mostly of none
}

/// The norm of two times, with the exponent 1.5, or 8 where one hardly waits for the other.
double joined(double a, double b, bool hardlyWaits) {
  if (hardlyWaits) {
    auto eighth = [](double x) { return (x *= x, x *= x, x * x); };
    return std::sqrt(std::sqrt(std::sqrt(eighth(a) + eighth(b))));
  }
  const double root = std::cbrt(a * std::sqrt(a) + b * std::sqrt(b));
  return root * root;
}

/// Blocks that a multiprocessor has room for, whatever was promised.
int roomFor(const rows::Schedule& s, const rows::Facts& facts, const Target& target) {
  const auto registers =
      int(rows::estimatedRegisters(s, facts)) + (facts.passes > 1 ? kUnforeseen : 0);
  return residentBlocks(target, int(s.allThreads()), std::min(registers, target.registersPerThread),
                        rows::sharedBytes(s, facts));
}

/// What one schedule does to one kernel, in the quantities that the constants speak of.
struct Shape {
  Shape(const rows::Schedule& s, const rows::Facts& facts, const Target& target, double rows)
      : once(s.grid == rows::Grid::oneShot), wide(s.lanes > 32),
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
    rounds = once ? waves : std::ceil(waves);
  }
  bool once, wide;
  double steps, exchanges, chunks, blocks;
  double resident; // blocks on a multiprocessor: no more than there are
  double accesses = 0, loads = 0, inFlight = 0; // of 16 bytes a thread; vectors a thread; bytes
  double held, slots, waves, rounds;
};

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

/// Bytes that a pass reads of a row, or of the rows that are the same for all.
double rowBytes(const std::vector<rows::Facts::Stream>& streams, const rows::Facts& facts) {
  double bytes = 0.0;
  for (const auto& stream : streams)
    bytes += double(stream.bytes * facts.width);
  return bytes;
}

/// The logarithm of what operations add that loads and stores do not hide.
double arithmeticLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const double operations = facts.operations + double(facts.columnOperations) / double(s.rows);
  const double ofByte = operations * double(facts.width) / std::max(1.0, facts.bytes(1.0));
  double hindered = s.keep == rows::Keep::shared ? kHinderedShared : 0.0;
  if (s.keep == rows::Keep::registers)
    hindered = kHinderedPieces * std::log2(shape.chunks);
  return kArithmetic * ofByte * (1.0 + kTogether * halvings(128.0, double(s.threads * s.cluster))) +
         hindered * std::max(0.0, ofByte - kHidden);
}

/// The logarithm of all losses against a copy.
double loss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
            const Target& target) {
  const double bytesOfRow = std::max(1.0, facts.bytes(1.0));
  double sum = accessLoss(s, facts) + arithmeticLoss(shape, s, facts);
  sum += kUnderfilled * halvings(shape.inFlight, facts.inputs.empty() ? 0.0 : kWanted);
  const bool exchangesWarps = shape.wide && shape.exchanges > 0.0;
  sum += kPieces * std::log2(shape.chunks) + (exchangesWarps ? kTeams : 0.0);
  sum += kShuffles * shape.steps * double(facts.reductions * s.lanes) / bytesOfRow;
  sum += kTail * (std::ceil(shape.waves) / shape.waves - 1.0) / shape.waves;
  const double accesses =
      std::max(shape.accesses, 1.0 / 16.0) / std::max<double>(1.0, double(facts.inputs.size()));
  const double threads = double(s.threads * s.cluster); // that meet at a barrier
  const bool staged = s.columns == rows::Columns::shared;
  const double bytesLoaded = rowBytes(facts.inputs, facts);
  if (s.keep == rows::Keep::shared)
    sum += shape.wide ? kWideShared : kTilesShared;
  if (exchangesWarps)
    sum += kAtBarriers * double(s.cluster) / shape.resident + (s.cluster > 1 ? kClustered : 0.0);
  if (s.keep == rows::Keep::global && facts.passes == 1)
    sum += kLittleAtOnce;
  if (shape.wide && s.keep == rows::Keep::registers && facts.passes > 2)
    sum += kWideHeld * halvings(16.0, shape.held);
  if (shape.held >= kManyHeld && roomFor(s, facts, target) < s.blocks)
    sum += kCrowded;
  if (shape.once) {
    sum += kFewAccesses * halvings(accesses, 2.0) + kManyAccesses * halvings(4.0, accesses);
    sum += kSmallBlock * halvings(threads, 128.0) + kLargeBlock * halvings(256.0, threads);
    if (facts.rowOutputs > 0)
      sum += kFewRows * std::max(0.0, 1.0 - double(s.rowsPerBlock()) / 8.0);
    if (staged && s.keep == rows::Keep::registers && facts.columns.size() == 1 &&
        facts.outputs.size() == 1)
      sum += kStagedLate * halvings(shape.inFlight, 4.0 * kWanted);
    if (!staged && bytesLoaded > 0.0)
      sum += kColumnsAgain * rowBytes(facts.columns, facts) / (bytesLoaded * double(s.rows));
  } else {
    sum += kFewAccessesLooping * halvings(accesses, 1.0) +
           kManyAccessesLooping * halvings(2.0, accesses);
    sum += kSmallBlockLooping * halvings(threads, 256.0) +
           kLargeBlockLooping * halvings(640.0, threads);
    if (staged)
      sum += kColumnsStaged;
  }
  return sum;
}

/// The same where tiles come through a ring.
double ringLoss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
                const Target& target) {
  double access = 0.0, tile = 0.0;
  for (const auto& stream : facts.inputs) {
    access = std::max(access, double(s.vector * stream.bytes));
    tile = std::max(tile, double(s.rowsPerBlock() * facts.width * stream.bytes));
  }
  const double flight = double(s.stages * s.blocks * rows::stageBytes(s, facts));
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
    sum += kRingDrain * std::min(1.0, double(s.stages) / shape.waves);
    // Blocks that the next launch starts early take what room there is where they come first, and
    // the rest of them is placed unevenly.
    if (s.launch != rows::Launch::plain && roomFor(s, facts, target) > s.blocks)
      sum += kRingUneven;
  }
  if (!shape.wide)
    return sum + kRingNarrow * halvings(access, 16.0) + kRingManyWarps * halvings(enough, threads);
  sum += kRingTeams + kRingRows * std::log2(double(s.threads) / double(s.lanes));
  sum += kRingHeld * halvings(16.0, shape.held) + kRingWideThreads * halvings(threads, 1280.0);
  const double heldOfRow = shape.chunks * double(s.vector);
  sum += kRingFewHeld * halvings(heldOfRow, 4.0) + kRingLittleHeld * halvings(heldOfRow, 8.0);
  return sum + kRingWideNarrow * halvings(access, 8.0);
}

/// Accesses of a thread to a ring and to staged columns. Of vectors wider than 16 bytes the parts
/// are one access each, for which lanes meet at the same banks.
double sharedAccesses(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  auto each = [&](const rows::Facts::Stream& stream) {
    const double parts = std::max(1.0, double(s.vector * stream.bytes) / 16.0);
    return parts * parts * shape.chunks;
  };
  double count = 0.0;
  for (const auto& stream : facts.inputs)
    count += double(s.rows) * each(stream);
  if (s.columns == rows::Columns::shared)
    for (const auto& stream : facts.columns)
      count += each(stream);
  return count;
}

/// us from the first load of a round to its last store.
double round(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const bool ring = s.keep == rows::Keep::ring;
  double time = ring ? kRingElement * shape.held + kSharedAccess * sharedAccesses(shape, s, facts)
                     : kElement * shape.held + kAccess * shape.loads;
  time += kStep * shape.steps * shape.exchanges +
          (ring ? kRingThreads : kThreads) * double(s.threads) / 1024.0;
  if (shape.wide)
    time +=
        shape.exchanges * (kBarrier + kGather * double(s.rows * std::max(1, facts.widestExchange)));
  const bool late =
      shape.once ? facts.columnsPass > 0 && shape.chunks * double(s.vector) > kColumnsHeld : true;
  if (!facts.columns.empty() && late && s.columns == rows::Columns::global)
    time += kColumnsLate;
  if (shape.once && facts.rowOutputs > 0 && s.rowsPerBlock() >= 8)
    time += kRowsStaged;
  return time;
}

/// Bytes of a row that later passes read again, as if from memory. The L2 cache has what fits there
/// of the rows at work on all multiprocessors together.
double bytesAgain(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
                  const Target& target) {
  const double row = rowBytes(facts.inputs, facts);
  const double atWork = row * double(s.rowsPerBlock()) * shape.resident * target.multiprocessors;
  const double cached = std::min(1.0, double(target.l2Bytes) / std::max(1.0, atWork));
  return row * (facts.passes - 1) * (kAgain * cached + 1.0 - cached);
}

} // namespace

Prediction predict(const rows::Schedule& s, const rows::Facts& facts, const Target& target,
                   double rows) {
  if (facts.rows >= 0)
    rows = double(facts.rows);
  const Shape shape(s, facts, target, rows);
  const double bandwidth = target.memoryGBs * 1e3 * kReachable; // bytes a us
  Prediction result;
  result.copyMicroseconds = kLaunch + facts.bytes(rows) / bandwidth;
  result.bytesInFlight = shape.inFlight;
  result.waves = shape.blocks / shape.slots;

  double bytes = facts.bytes(rows);
  if (s.keep == rows::Keep::global)
    bytes += rows * bytesAgain(shape, s, facts, target);
  const bool ring = s.keep == rows::Keep::ring;
  double busy = bytes / bandwidth *
                std::exp(ring ? ringLoss(shape, s, facts, target) : loss(shape, s, facts, target));
  busy *= std::max(1.0, target.multiprocessors / (kShareOfOne * shape.blocks));
  double waiting = shape.rounds * round(shape, s, facts);
  if (shape.once && s.columns == rows::Columns::shared) // later rounds hide it
    waiting += kColumnsStage + kColumnStaged * double(facts.columns.size()) * double(facts.width) /
                                   double(s.threads);
  if (ring && s.rowsPerBlock() % 4 != 0)
    waiting =
        std::max(waiting, kSingle * shape.rounds * double(s.rowsPerBlock() * facts.rowInputs));
  result.moving = busy;
  result.waiting = waiting;
  result.starting = kLaunch + (s.launch == rows::Launch::plain ? kPlainLaunch : 0.0);
  double time = joined(busy, waiting, /*hardlyWaits=*/ring) + result.starting;
  if (facts.hasSums()) {
    double lines = std::min(shape.blocks, shape.slots);
    double columns = double(facts.columnSums * facts.width + facts.totalSums);
    double teams = double(s.threads) / double(std::max<std::int64_t>(s.lanes, 32));
    result.summing =
        (ring ? kFinishAhead : kFinish) + kPartials * lines * columns + kCombine * teams * columns;
    time += result.summing;
  }
  result.microseconds = time + kTie * double(s.blocks);
  return result;
}

/// The bytes that are in flight count, and for sums how many partial ones there are.
Prediction predict(const rows::Schedule& s, const segments::Facts& facts, const Target& target,
                   double elements) {
  const double bytes = elements * (facts.bytesRead + facts.bytesWritten);
  const double bandwidth = target.memoryGBs * 1e3 * kReachable;
  Prediction result;
  result.copyMicroseconds = kLaunch + bytes / bandwidth;
  result.bytesInFlight =
      double(s.blocks * s.threads * s.vector * facts.bytesRead) / facts.parts; // of a part's block
  const double tiles = std::ceil(elements / double(segments::chunkElements * s.rows)) * facts.parts;
  result.waves = tiles / (double(s.blocks) * target.multiprocessors);
  const double loss = kUnderfilled * halvings(result.bytesInFlight, kWanted) +
                      kNarrow * halvings(double(s.vector * facts.widestBytes), 16.0) +
                      kSmallBlock * halvings(double(s.threads), 128.0) +
                      kLargeBlock * halvings(256.0, double(s.threads));
  result.microseconds = kLaunch + bytes / bandwidth * std::exp(loss) + kTie * double(s.blocks) +
                        (s.launch == rows::Launch::plain ? kPlainLaunch : 0.0);
  if (facts.outputs == 0)
    result.microseconds += kFinish + kPartials * tiles;
  return result;
}

} // namespace kiln::autotune
