// See Cost.h. The constants, here and of the losses, are a fit to 8,000 timed schedules of
// AlphaFold's LayerNorms and of the language models' rows, forward and backward, on an H200
// (bench/sweep.cpp makes the data), then to the 15,700 of 140 keys that tuning these timed
// (bench/tune_store.sh), which lie nearer to the best. Other GPUs scale with their bandwidth, their
// number of multiprocessors and their L2 cache.
//
// A kernel either keeps memory busy, and then takes as long as a copy times a loss for each thing
// that a schedule does less well than a copy (Losses.h), or it issues instructions as fast as a
// multiprocessor can, or it waits, and then takes as long as the rounds of blocks that a
// multiprocessor works through. The three are joined smoothly.
#include "autotune/Cost.h"

#include "autotune/Losses.h"

namespace kiln::autotune {
namespace {

constexpr double kReachable = 0.943; // of the nominal bandwidth, by the best copy
constexpr double kLaunch = 0.98;     // us to start and drain a kernel
constexpr double kPlainLaunch = 0.5; // us more without programmatic launch
constexpr double kShareOfOne = 2.5;  // fair shares of bandwidth that one multiprocessor can take
constexpr double kAgain = 0.48;      // of the bytes that another pass reads from the L2 cache

// Instructions that a multiprocessor issues in a us, of single threads, and what takes them: a
// thread that starts and finds its elements, an operation, two of which often are one instruction,
// and what an error function has beyond the operations counted for it.
constexpr double kIssued = 128 * 1750;
constexpr double kThreadIssues = 200, kOperationIssues = 0.5, kErfIssues = 20;

// us of a round.
constexpr double kElement = 0.027;     // an element that a thread holds
constexpr double kRingElement = 0.02;  // the same of a ring's tile
constexpr double kSharedAccess = 0.01; // an access to shared memory
constexpr double kAccess = 0.022;      // an access of a thread
constexpr double kStep = 0.0042;       // a step of an exchange between lanes
constexpr double kBarrier = 0.14;      // an exchange between warps
constexpr double kGather = 0.007;      // a value that it gathers
constexpr double kColumnsHeld = 8;     // elements of them that a thread can ask for with its rows'
constexpr double kColumnsLate = 0.39;  // more are asked for only after the exchanges
constexpr double kColumnStaged = 0.0075; // an element of them that a thread puts into shared memory
constexpr double kColumnsStage = 0.06;   // the barrier behind that
constexpr double kRowsStaged = 0.17;     // the barrier before values of rows are stored together
constexpr double kThreads = 0.18, kRingThreads = 0.79; // 1024 threads in a block
constexpr double kSingle = 0.15; // a value that a ring's mover copies by itself
// us of sums down the columns.
constexpr double kFinish = 1.3;      // the kernel that adds up partial sums
constexpr double kFinishAhead = 0.5; // while the next kernel fills its ring
constexpr double kPartials = 5.2e-6; // a partial sum
constexpr double kCombine = 9.2e-5;  // a column that a team hands to the others of its block
constexpr double kTie = 1e-4;        // a block promised: the fewer registers given up, the better

/// The norm of two times, with the exponent 1.5, or 8 where one hardly waits for the other.
double joined(double a, double b, bool hardlyWaits) {
  if (hardlyWaits) {
    auto eighth = [](double x) { return (x *= x, x *= x, x * x); };
    return std::sqrt(std::sqrt(std::sqrt(eighth(a) + eighth(b))));
  }
  const double root = std::cbrt(a * std::sqrt(a) + b * std::sqrt(b));
  return root * root;
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

/// us that it takes to issue all instructions. Threads that hold few elements have more of them.
double issuing(const Shape& shape, const rows::Schedule& s, const rows::Facts& facts,
               const Target& target, double rows) {
  const double operations = facts.operations + double(facts.columnOperations) / double(s.rows);
  const double ofElement = kOperationIssues * operations + kErfIssues * facts.erfs;
  const double issues =
      shape.blocks * double(s.threads) * kThreadIssues + rows * double(facts.width) * ofElement;
  return issues / (kIssued * target.multiprocessors);
}

} // namespace

Prediction predict(const rows::Schedule& s, const rows::Facts& facts, const Target& target,
                   double rows) {
  // No rows take as long as one: a launch.
  rows = std::max(facts.rows >= 0 ? double(facts.rows) : rows, 1.0);
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
  double busy =
      bytes / bandwidth *
      std::exp(ring ? ringLoss(shape, s, facts, target) : tileLoss(shape, s, facts, target));
  busy *= std::max(1.0, target.multiprocessors / (kShareOfOne * shape.blocks));
  busy = joined(busy, issuing(shape, s, facts, target, rows), /*hardlyWaits=*/true);
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
  result.microseconds =
      kLaunch + bytes / bandwidth * std::exp(listLoss(s, facts, result.bytesInFlight)) +
      kTie * double(s.blocks) + (s.launch == rows::Launch::plain ? kPlainLaunch : 0.0);
  if (facts.outputs == 0)
    result.microseconds += kFinish + kPartials * tiles;
  return result;
}

} // namespace kiln::autotune
