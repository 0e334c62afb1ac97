// See Cost.h. The constants are a fit to 4,000 timed schedules of AlphaFold's LayerNorms, forward
// and backward, fp32 and bf16, on an H200 (bench/sweep.cpp makes the data). Other GPUs scale with
// their bandwidth and their number of multiprocessors.
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
constexpr double kJoin = 1.5;        // exponent of the norm that joins the two

// Logarithms of losses; "each halving" and "each doubling" count fractions.
constexpr double kUnderfilled = 0.105; // each halving of the bytes in flight below kWanted
constexpr double kWanted = 49152;      // bytes in flight a multiprocessor
constexpr double kArithmetic = 0.02;   // each scalar operation a byte
constexpr double kNarrow = 0.024;      // each halving of a 16-byte access
constexpr double kGaps = 0.062;        // each doubling of the gaps between lanes of one access
constexpr double kPieces = 0.019;      // each doubling of the pieces that a thread has of a row
constexpr double kAgain = 0.5;         // of the bytes that another pass reads from the L2 cache
constexpr double kTail = 0.45;         // of the share of a round that idles at the end
constexpr double kSteps = 0.005;       // each step of an exchange
constexpr double kTeams = 0.008;       // an exchange between warps
// One block a tile: much in flight a thread, blocks of 128 to 256 threads, 8 rows to store at once.
constexpr double kFewAccesses = 0.13, kManyAccesses = 0.02; // below 2, above 4 of 16 bytes
constexpr double kSmallBlock = 0.018, kLargeBlock = 0.032;  // below 128, above 256 threads
constexpr double kFewRows = 0.1;                            // no row but one a block
constexpr double kColumnsAgain = 0.023;                     // columns read by every block
constexpr double kTilesShared = 0.025;                      // rows kept in shared memory
constexpr double kWideShared = 0.06; // the same where a row needs several warps
constexpr double kAtBarriers = 0.08; // of such rows, where one block alone waits
// Resident blocks, which loop: the loads of one tile suffice, columns stay in the cache.
constexpr double kFewAccessesLooping = 0.065, kManyAccessesLooping = 0.03; // below 1, above 2
constexpr double kSmallBlockLooping = 0.004, kLargeBlockLooping = 0.013;   // below 256, above 640
constexpr double kColumnsStaged = 0.021;

// us of a round.
constexpr double kElement = 0.026;    // an element that a thread holds
constexpr double kAccess = 0.03;      // an access of a thread
constexpr double kStep = 0.005;       // a step of an exchange between lanes
constexpr double kBarrier = 0.06;     // an exchange between warps
constexpr double kGather = 0.02;      // a value that it gathers
constexpr double kColumnsLate = 0.15; // columns asked for only after the exchanges
constexpr double kThreads = 0.25;     // 1024 threads in a block
// us of sums down the columns.
constexpr double kFinish = 1.69;     // the kernel that adds up partial sums
constexpr double kPartials = 3.6e-6; // a partial sum
constexpr double kCombine = 5.5e-5;  // a column that a team hands to the others of its block
constexpr double kTie = 1e-4;        // a block promised: the fewer registers given up, the better

double halvings(double from, double to) {
  return std::max(0.0, std::log2(to / from));
}

/// What one schedule does to one kernel, in the quantities that the constants speak of.
struct Shape {
  Shape(const rows::Schedule& s, const rows::Facts& facts, const Target& target, double rows)
      : once(s.grid == rows::Grid::oneShot), wide(s.lanes > 32),
        steps(std::log2(double(std::min<std::int64_t>(s.lanes, 32)))),
        exchanges(std::max(0, facts.passes - 1)), chunks(double(s.chunks(facts.width))) {
    for (const auto& stream : facts.inputs) {
      double vectorBytes = double(s.vector * stream.bytes);
      accesses += double(s.rows) * chunks * vectorBytes / 16.0;
      loads += double(s.rows) * chunks;
      inFlight += double(s.blocks * s.threads * s.rows) * chunks * vectorBytes;
    }
    held = double(s.rows) * chunks * double(s.vector);
    blocks = std::ceil(rows / double(s.rowsPerBlock()));
    slots = double(s.blocks) * target.multiprocessors;
    waves = std::max(1.0, blocks / slots);
    rounds = once ? waves : std::ceil(waves);
  }
  bool once, wide;
  double steps, exchanges, chunks;
  double accesses = 0, loads = 0, inFlight = 0; // of 16 bytes a thread; vectors a thread; bytes
  double held, blocks, slots, waves, rounds;
};

/// The logarithm of the loss of a stream of accesses below 16 bytes or with gaps between lanes: a
/// vector that is moved in parts leaves them.
double accessLoss(const rows::Schedule& s, const rows::Facts& facts) {
  double worst = 0.0;
  auto look = [&](const rows::Facts::Stream& stream) {
    double wanted = double(s.vector * stream.bytes);
    double moved = std::min(16.0, double(std::min(s.vector, stream.widest) * stream.bytes));
    worst = std::max(worst, kNarrow * std::log2(16.0 / moved) + kGaps * halvings(moved, wanted));
  };
  for (const auto& stream : facts.inputs)
    look(stream);
  for (const auto& stream : facts.outputs)
    look(stream);
  return worst;
}

/// Bytes that a pass reads of a row.
double rowBytes(const rows::Facts& facts) {
  double bytes = 0.0;
  for (const auto& stream : facts.inputs)
    bytes += double(stream.bytes * facts.width);
  return bytes;
}

/// The logarithm of all losses against a copy.
double loss(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  const double bytesOfRow = std::max(1.0, facts.bytes(1.0));
  double sum = accessLoss(s, facts);
  sum += kArithmetic * facts.operations * double(facts.width) / bytesOfRow;
  sum += kUnderfilled * halvings(shape.inFlight, facts.inputs.empty() ? 0.0 : kWanted);
  sum += kPieces * std::log2(shape.chunks) + kSteps * shape.steps + (shape.wide ? kTeams : 0.0);
  sum += kTail * (std::ceil(shape.waves) / shape.waves - 1.0) / shape.waves;
  const double accesses =
      std::max(shape.accesses, 1.0 / 16.0) / std::max<double>(1.0, double(facts.inputs.size()));
  const double threads = double(s.threads);
  const bool staged = s.columns == rows::Columns::shared;
  if (s.keep == rows::Keep::shared)
    sum += shape.wide ? kWideShared : kTilesShared;
  if (shape.wide)
    sum += kAtBarriers / double(s.blocks);
  if (shape.once) {
    sum += kFewAccesses * halvings(accesses, 2.0) + kManyAccesses * halvings(4.0, accesses);
    sum += kSmallBlock * halvings(threads, 128.0) + kLargeBlock * halvings(256.0, threads);
    if (facts.rowOutputs > 0)
      sum += kFewRows * std::max(0.0, 1.0 - double(s.rowsPerBlock()) / 8.0);
    if (!facts.columns.empty() && !staged)
      sum += kColumnsAgain;
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

/// us from the first load of a round to its last store.
double round(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts) {
  double time = kElement * shape.held + kAccess * shape.loads;
  time += kStep * shape.steps * shape.exchanges + kThreads * double(s.threads) / 1024.0;
  if (shape.wide)
    time +=
        shape.exchanges * (kBarrier + kGather * double(s.rows * std::max(1, facts.widestExchange)));
  if (shape.once && facts.columnsPass > 0 && !facts.columns.empty() &&
      s.columns == rows::Columns::global)
    time += kColumnsLate;
  return time;
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
    bytes += kAgain * rows * rowBytes(facts) * (facts.passes - 1);
  double busy = bytes / bandwidth * std::exp(loss(shape, s, facts));
  double waiting = shape.rounds * round(shape, s, facts);
  double time = std::pow(std::pow(busy, kJoin) + std::pow(waiting, kJoin), 1.0 / kJoin);
  time += kLaunch + (s.launch == rows::Launch::plain ? kPlainLaunch : 0.0);
  if (facts.hasSums()) {
    double lines = std::min(shape.blocks, shape.slots);
    double columns = double(facts.columnSums * facts.width + facts.totalSums);
    double teams = double(s.threads) / double(std::max<std::int64_t>(s.lanes, 32));
    time += kFinish + kPartials * lines * columns + kCombine * teams * columns;
  }
  result.microseconds = time + kTie * double(s.blocks);
  return result;
}

} // namespace kiln::autotune
