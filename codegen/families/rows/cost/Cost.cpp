// See Cost.h. The constants (cost_constants.def) are a fit to 8,000 timed schedules of AlphaFold's
// LayerNorms and of the language models' rows, forward and backward, on an H200 (bench/sweep.cpp
// makes the data), then to the 15,700 of 140 keys that tuning these timed (bench/tune_store.sh),
// which lie nearer to the best. bench/fit_cost fits them to any store. Other GPUs scale with their
// bandwidth, their number of multiprocessors and their L2 cache.
//
// A kernel either keeps memory busy, and then takes as long as a copy times a factor for each thing
// that a schedule does less well than a copy (CostTerms.h), or it issues instructions as fast as a
// multiprocessor can, or it waits, and then takes as long as the rounds of blocks that a
// multiprocessor works through. The three are joined smoothly.
#include "codegen/families/rows/cost/Cost.h"

#include "codegen/families/rows/PassPlan.h"
#include "codegen/families/rows/cost/CostTerms.h"

namespace kiln::rows {
namespace {

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
double sharedAccesses(const Shape& shape, const Schedule& s, const Facts& facts) {
  auto each = [&](const Facts::Stream& stream) {
    const double parts = std::max(1.0, double(s.vector * stream.bytes) / 16.0);
    return parts * parts * shape.chunks;
  };
  double count = 0.0;
  for (const auto& stream : facts.inputs)
    count += double(s.rows) * each(stream);
  if (s.columns == Columns::shared)
    for (const auto& stream : facts.columns)
      count += each(stream);
  return count;
}

/// us from the first load of a round to its last store.
double round(const Shape& shape, const Schedule& s, const Facts& facts, const CostConstants& k) {
  const bool ring = s.keep == Keep::ring;
  double time = ring ? k.ringElement * shape.held + k.sharedAccess * sharedAccesses(shape, s, facts)
                     : k.element * shape.held + k.access * shape.loads;
  time += k.step * shape.steps * shape.exchanges +
          (ring ? k.ringThreads : k.threads) * double(s.threads) / 1024.0;
  if (shape.wide)
    time += shape.exchanges *
            (k.barrier + k.gather * double(s.rows * std::max(1, facts.widestExchange)));
  const bool late =
      shape.once ? facts.columnsPass > 0 && shape.chunks * double(s.vector) > k.columnsHeld : true;
  if (!facts.columns.empty() && late && s.columns == Columns::global)
    time += k.columnsLate;
  if (shape.once && facts.rowOutputs > 0 && s.rowsPerBlock() >= 8)
    time += k.rowsStaged;
  return time;
}

/// Bytes of a row that later passes read again, as if from memory. The L2 cache has what fits there
/// of the rows at work on all multiprocessors together.
double bytesAgain(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                  const CostConstants& k) {
  const double row = rowBytes(facts.inputs, facts);
  const double atWork = row * double(s.rowsPerBlock()) * shape.resident * target.multiprocessors;
  const double cached = std::min(1.0, double(target.l2Bytes) / std::max(1.0, atWork));
  return row * (facts.passes - 1) * (k.again * cached + 1.0 - cached);
}

/// us that copies past the L1 cache take for rows that are repeated: the few lines of the L2 cache
/// that have them give 64 bytes a clock each. 262,144 rows of 64 bytes, four different ones, took
/// 87 us where a copy takes 14.
double crowdingOf(const Schedule& s, const Facts& facts, double rows, const Target& target) {
  constexpr double lineBytes = 128, bytesOfClock = 64, mostLines = 80; // that give at a time
  double time = 0.0;
  for (const Facts::Stream& stream : facts.inputs) {
    if (s.keep != Keep::shared || stream.distinctRows == 0)
      continue;
    const double row = static_cast<double>(facts.width * stream.bytes);
    const double lines = std::ceil(static_cast<double>(stream.distinctRows) * row / lineBytes);
    time += rows * row / (std::min(lines, mostLines) * bytesOfClock * target.clockGHz * 1e3);
  }
  return time;
}

/// Issue slots of an element.
double issuesOf(double operations, const Facts& facts, const CostConstants& k) {
  return k.operationIssues * operations + k.erfIssues * facts.erfs + k.rootIssues * facts.roots;
}

/// us that it takes to issue all instructions, those for elements that a row lacks too. Threads
/// that hold few elements have more of them. Multiprocessors without a block issue none, and those
/// with few warps wait for what these have issued.
double issuing(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
               double rows, const CostConstants& k) {
  const double operations = facts.operations + double(facts.columnOperations) / double(s.rows);
  const double slots = shape.chunks * double(s.lanes * s.vector);
  const double working = std::min(1.0, shape.blocks / target.multiprocessors);
  const double warps = shape.resident * double(s.threads) / 32.0;
  const double busy = warps < k.issueWarps ? std::pow(warps / k.issueWarps, k.issueShare) : 1.0;
  double issues = shape.blocks * double(s.threads) * k.threadIssues +
                  rows * slots * issuesOf(operations, facts, k) / (working * busy);
  // Warps that have an end move the elements of their vectors there one by one: rows of 777 by one
  // warp took 11.4 us by vectors of 2, 12.9 of 4, 15.4 of 8, 21.5 of 16.
  if (s.overlaps(facts.width))
    issues += rows * 2.0 * double(std::min<std::int64_t>(s.lanes, 32) * s.vector) * k.overlapIssues;
  return issues / (k.issued * target.multiprocessors);
}

/// The logarithm of what a long kernel costs more because its code is long.
double writtenOutTerm(const Shape& shape, const Facts& facts, const CostConstants& k) {
  if (!facts.isLong())
    return 0.0;
  return k.writtenOutMore * halvings(k.writtenOut, facts.operations * shape.held);
}

/// No rows take as long as one: a launch.
double rowsOf(const Facts& facts, double rows) {
  return std::max(facts.rows >= 0 ? double(facts.rows) : rows, 1.0);
}

double bandwidthOf(const Target& target, const CostConstants& k) { // bytes a us
  return target.memoryGBs * 1e3 * k.reachable;
}

double startOf(const Schedule& s, const CostConstants& k) {
  return k.launch + (s.launch == Launch::plain ? k.plainLaunch : 0.0) +
         (s.cluster > 1 ? k.clusterLaunch : 0.0);
}

/// us of column sums: a second kernel adds up the lines that blocks have written.
double summingOf(double lines, const Schedule& s, const Facts& facts, const CostConstants& k) {
  if (!facts.hasSums())
    return 0.0;
  const double columns = double(facts.columnSums * facts.width + facts.totalSums);
  const double teams = double(s.threads) / double(std::max<std::int64_t>(s.lanes, 32));
  return (s.keep == Keep::ring ? k.finishAhead : k.finish) + k.partials * lines * columns +
         k.combine * teams * columns;
}

} // namespace

Cost costOf(const Schedule& s, const Facts& facts, const Target& target, double rows,
            const CostConstants& k) {
  rows = rowsOf(facts, rows);
  const Shape shape(s, facts, target, rows);
  const double bandwidth = bandwidthOf(target, k);
  Cost result;
  result.copy = k.launch + facts.bytes(rows) / bandwidth;
  result.bytesInFlight = shape.inFlight;
  result.waves = shape.blocks / shape.slots;

  double bytes = facts.bytes(rows);
  if (s.keep == Keep::global)
    bytes += rows * bytesAgain(shape, s, facts, target, k);
  const bool ring = s.keep == Keep::ring;
  double busy = bytes / bandwidth *
                std::exp(ring ? ringTerms(shape, s, facts, target, k)
                              : tileTerms(shape, s, facts, target, k));
  busy *= std::max(1.0, target.multiprocessors / (k.shareOfOne * shape.blocks));
  busy = joined(busy, issuing(shape, s, facts, target, rows, k), /*hardlyWaits=*/true);
  busy = std::max(busy, crowdingOf(s, facts, rows, target));
  double waiting = shape.rounds * round(shape, s, facts, k);
  if (shape.once && s.columns == Columns::shared) // later rounds hide it
    waiting += k.columnsStage + k.columnStaged * double(facts.columns.size()) *
                                    double(facts.width) / double(s.threads);
  if (ring && s.rowsPerBlock() % 4 != 0)
    waiting =
        std::max(waiting, k.single * shape.rounds * double(s.rowsPerBlock() * facts.rowInputs));
  const bool isNarrow = facts.hasNarrowRows();
  if (isNarrow) {
    const NarrowCost narrow = narrowCost(shape, s, facts, target, rows, bytes / bandwidth, k);
    busy = narrow.moving;
    waiting = narrow.waiting;
  }
  const double term = unlikelyTerm(s, facts, target, k) + writtenOutTerm(shape, facts, k);
  if (term > 0.0) {
    busy *= std::exp(term);
    waiting *= std::exp(term);
  }
  result.moving = busy;
  result.waiting = waiting;
  result.starting = startOf(s, k);
  double time = isNarrow ? busy + waiting : joined(busy, waiting, /*hardlyWaits=*/ring);
  time += result.starting;
  result.summing = summingOf(std::min(shape.blocks, shape.slots), s, facts, k);
  time += result.summing;
  result.total = time + k.tie * double(s.blocks);
  return result;
}

double leastCost(const Schedule& schedule, const Facts& facts, const Target& target, double rows,
                 const CostConstants& k) {
  Schedule s = schedule;
  s.rows = s.blocks = 1;
  rows = rowsOf(facts, rows);
  double bytes = facts.bytes(rows);
  if (s.keep == Keep::global)
    bytes += rows * rowBytes(facts.inputs, facts) * (facts.passes - 1) * std::min(k.again, 1.0);
  const double around = startOf(s, k) + summingOf(1.0, s, facts, k);
  if (facts.hasNarrowRows())
    return around + bytes / bandwidthOf(target, k);
  const double busy = std::max(bytes / bandwidthOf(target, k) * std::exp(leastTerms(s, facts, k)),
                               rows * double(facts.width) * issuesOf(facts.operations, facts, k) /
                                   (k.issued * target.multiprocessors));
  const double waiting = round(Shape(s, facts, target, rows), s, facts, k);
  const double unlikely = unlikelyTerm(s, facts, target, k) - looseTerm(s, facts, k);
  return around + std::max(busy, waiting) * std::exp(unlikely);
}

/// Whether an input is read as its rows lie, with others between them.
static bool hasRowsApart(const Facts& facts) {
  const bool isOne = std::ranges::none_of(facts.inputs, [](const Facts::Stream& stream) {
    return stream.again || stream.repeats || stream.transposed;
  });
  return !facts.packed && facts.randoms == 0 && !facts.inputs.empty() && isOne;
}

Work workOf(const Facts& facts, double rows) {
  rows = facts.rows >= 0 ? double(facts.rows) : rows;
  const double elements = rows * double(facts.width);
  const auto bytesOf = [&](const std::vector<Facts::Stream>& streams, bool repeats = false) {
    double bytes = 0.0;
    for (const Facts::Stream& stream : streams)
      bytes += stream.again || stream.repeats != repeats ? 0.0 : double(stream.bytes) * elements;
    return bytes;
  };
  Work work;
  work.bytesRead = bytesOf(facts.inputs);
  work.bytesAgain = bytesOf(facts.inputs, /*repeats=*/true);
  work.bytesWritten = bytesOf(facts.outputs);
  work.rowValueBytes = rows * 4.0 * (facts.rowInputs + facts.rowOutputs);
  work.operations =
      elements * (facts.hasNarrowRows() ? leastInstructions(facts, kCostConstants)
                                        : double(facts.operations - facts.operationsAgain -
                                                 facts.randoms * kRandomOperations));
  work.randoms = elements * facts.randoms;
  work.chain = facts.operations - facts.operationsAgain;
  if (facts.hasOddRows() && !facts.hasNarrowRows())
    work.oddRows = rows * double(facts.inputs.size() + facts.outputs.size());
  work.hasRowsApart = hasRowsApart(facts);
  work.hasWholeRows = facts.passes > 1;
  work.erfs = elements * facts.erfs;
  work.roots = elements * facts.roots;
  work.exponentials = elements * facts.exponentials;
  work.hasSums = facts.hasSums();
  work.summed = double(facts.columnSums * facts.width + facts.totalSums);
  work.rows = rows;
  work.readsAhead = facts.hasOlder();
  work.prefetches = facts.hasSums() && facts.dense; // a ring does
  return work;
}

} // namespace kiln::rows
