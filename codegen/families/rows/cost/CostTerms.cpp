// Cost terms of tiles that threads load themselves; see CostTerms.h. "Each halving" and
// "each doubling" count fractions. Kernels of one pass, which only map elements, are told from
// those that reduce rows: no thread of theirs waits for another, so that few bytes in flight
// suffice.
#include "codegen/families/rows/cost/CostTerms.h"

namespace kiln::rows {
namespace {

/// The term of a stream of accesses below 16 bytes or with gaps between lanes: a
/// vector that is moved in parts leaves them.
double accessTerms(const Schedule& s, const Facts& facts, const CostConstants& k) {
  const bool pieces = s.chunks(facts.width) > 1; // else those of the next row read on
  const auto runOf = [&](const Facts::Stream& stream) {
    return pieces ? double(s.lanes * s.vector * stream.bytes) : k.run;
  };
  if (s.overlaps(facts.width)) {
    double run = k.run;
    for (const auto* streams : {&facts.inputs, &facts.outputs})
      for (const auto& stream : *streams)
        run = std::min(run, runOf(stream));
    return k.overlap * std::min(1.0, 2.0 / double(s.chunks(facts.width))) +
           k.shortRun * halvings(run, k.run);
  }
  double worst = 0.0;
  auto look = [&](const Facts::Stream& stream) {
    double wanted = double(s.vector * stream.bytes);
    double moved = std::min(16.0, double(std::min(s.vector, stream.widest) * stream.bytes));
    worst = std::max(worst, k.narrow * halvings(moved, 16.0) + k.gaps * halvings(moved, wanted) +
                                k.shortRun * halvings(runOf(stream), k.run));
  };
  for (const auto& stream : facts.inputs)
    look(stream);
  for (const auto& stream : facts.outputs)
    look(stream);
  return worst;
}

/// Scalar operations for each byte moved, as far as bytes matter: where rows are made of next to
/// nothing, as of a number for each, the time is that of issuing them.
double operationsOfByte(const Schedule& s, const Facts& facts) {
  constexpr double most = 128.0;
  const double operations = facts.operations + double(facts.columnOperations) / double(s.rows);
  return std::min(operations * double(facts.width) / std::max(1.0, facts.bytes(1.0)), most);
}

/// The logarithm of what operations add that loads and stores do not hide.
double arithmeticTerms(const Shape& shape, const Schedule& s, const Facts& facts,
                       const CostConstants& k) {
  const double ofByte = operationsOfByte(s, facts);
  double hindered = s.keep == Keep::shared ? k.hinderedShared : 0.0;
  if (s.keep == Keep::registers)
    hindered = k.hinderedPieces * halvings(1.0, shape.chunks);
  return k.arithmetic * ofByte *
             (1.0 + k.together * halvings(128.0, double(s.threads * s.cluster))) +
         hindered * std::max(0.0, ofByte - k.hidden);
}

/// Of columns that the blocks of a grid read, one block a tile.
double columnsTerms(const Shape& shape, const Schedule& s, const Facts& facts,
                    const CostConstants& k) {
  const bool staged = s.columns == Columns::shared;
  const double bytesLoaded = rowBytes(facts.inputs, facts);
  double sum = 0.0;
  if (bytesLoaded > 0.0)
    sum = (staged ? k.columnsCopied : k.columnsAgain) * rowBytes(facts.columns, facts) /
          (bytesLoaded * double(staged ? s.rowsPerBlock() : s.rows));
  if (!staged)
    return sum;
  for (const auto& stream : facts.columns)
    sum += k.columnsConflict * halvings(16.0, double(s.vector * stream.bytes)) / double(s.rows);
  if (s.keep == Keep::registers && facts.columns.size() == 1 && facts.outputs.size() == 1)
    sum += k.stagedLate * halvings(shape.inFlight, 4.0 * k.wanted);
  return sum;
}

/// Of the size of blocks and tiles.
double sizeTerms(const Shape& shape, const Schedule& s, const Facts& facts,
                 const CostConstants& k) {
  const double accesses =
      std::max(shape.accesses, 1.0 / 16.0) / std::max<double>(1.0, double(facts.inputs.size()));
  const double threads = double(s.threads * s.cluster); // that meet at a barrier
  if (!shape.once)
    return k.fewAccessesLooping * halvings(accesses, 1.0) +
           k.manyAccessesLooping * halvings(2.0, accesses) +
           k.smallBlockLooping * halvings(threads, 256.0) +
           k.largeBlockLooping * halvings(640.0, threads);
  double sum = k.smallBlock * halvings(threads, 128.0) + k.largeBlock * halvings(256.0, threads);
  if (facts.rowOutputs > 0)
    sum += k.fewRows * std::max(0.0, 1.0 - double(s.rowsPerBlock()) / 8.0);
  if (facts.passes == 1)
    return sum + k.fewMapped * halvings(accesses, 2.0) + k.manyMapped * halvings(2.0, accesses);
  return sum + k.fewAccesses * halvings(accesses, 2.0) + k.manyAccesses * halvings(4.0, accesses);
}

/// Of where rows are kept.
double keepTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                 const CostConstants& k) {
  const bool maps = facts.passes == 1;
  double sum = 0.0;
  if (s.keep == Keep::shared)
    sum += shape.wide || maps ? k.wideShared : k.tilesShared;
  if (s.keep == Keep::global && maps)
    sum += k.littleAtOnce;
  if (shape.wide && s.keep == Keep::registers && facts.passes > 2)
    sum += k.wideHeld * halvings(16.0, shape.held);
  // Vectors that overlap the ends of rows are taken apart, and their elements held twice.
  const double held = s.overlaps(facts.width) ? 2.0 * shape.held : shape.held;
  if (held >= (maps ? k.manyMappedHeld : k.manyHeld) && roomFor(s, facts, target, k) < s.blocks)
    sum += k.crowded;
  return sum;
}

} // namespace

double rowBytes(const std::vector<Facts::Stream>& streams, const Facts& facts) {
  double bytes = 0.0;
  for (const auto& stream : streams)
    bytes += double(stream.bytes * facts.width);
  return bytes;
}

int roomFor(const Schedule& s, const Facts& facts, const Target& target, const CostConstants& k,
            int more) {
  const int registers = int(estimatedRegisters(s, facts)) + int(k.unforeseen) + more;
  return residentBlocks(target, int(s.allThreads()), std::min(registers, target.registersPerThread),
                        sharedBytes(s, facts));
}

double leastTerms(const Schedule& s, const Facts& facts, const CostConstants& k) {
  if (s.keep == Keep::ring)
    return commonRingTerms(s, facts, k);
  if (facts.passes == 1)
    return accessTerms(s, facts, k) + (s.keep == Keep::global ? k.littleAtOnce : 0.0);
  double sum = accessTerms(s, facts, k) + k.pieces * halvings(1.0, double(s.chunks(facts.width)));
  if (s.lanes > 32)
    sum += k.teams + (s.cluster > 1 ? k.clustered : 0.0);
  return sum;
}

double tileTerms(const Shape& shape, const Schedule& s, const Facts& facts, const Target& target,
                 const CostConstants& k) {
  const bool maps = facts.passes == 1;
  double sum = accessTerms(s, facts, k) + arithmeticTerms(shape, s, facts, k) +
               sizeTerms(shape, s, facts, k) + keepTerms(shape, s, facts, target, k);
  if (!facts.inputs.empty())
    sum += k.underfilled * halvings(shape.inFlight, maps ? k.wantedMapping : k.wanted);
  if (!maps)
    sum += k.pieces * halvings(1.0, shape.chunks);
  sum += k.shuffles * shape.steps * double(facts.reductions * s.lanes) /
         std::max(1.0, facts.bytes(1.0));
  const double idle = std::ceil(shape.waves) / shape.waves - 1.0;
  sum += idle * (k.tail / shape.waves + k.tailBusy * operationsOfByte(s, facts));
  if (shape.wide && shape.exchanges > 0.0)
    sum += k.teams + k.atBarriers * double(s.cluster) / shape.resident +
           (s.cluster > 1 ? k.clustered : 0.0);
  if (shape.once)
    return sum + columnsTerms(shape, s, facts, k);
  return sum + (s.columns == Columns::shared ? k.columnsStaged : 0.0);
}

} // namespace kiln::rows
