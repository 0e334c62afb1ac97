// See Calibration.h. bench/fit_cost fits the constants to times of tuned stores and says how well
// they do for keys, and for ops, that it did not see.
#include "codegen/model/Calibration.h"

#include <algorithm>
#include <cmath>

namespace kiln::model {

double exponentialsOf(const Work& work, const Target& target) {
  return work.exponentials / (target.exponentials * target.clockGHz * 1e3 * target.multiprocessors);
}

/// The share of the machine that is at work, where there are fewer rows than multiprocessors.
static double shareAtWork(const Work& work, const Target& target, const CostConstants& k) {
  if (!work.hasWholeRows || work.rows >= target.multiprocessors)
    return 1.0;
  return std::pow(std::max(work.rows, 1.0) / target.multiprocessors, k.workFewRows);
}

/// us to issue the instructions that there are.
static double issuingOf(const Work& work, const Target& target, const CostConstants& k) {
  double threads = k.workOperation * work.operations + k.workErf * work.erfs +
                   k.workRoot * work.roots + k.workRandom * work.randoms +
                   k.workOddRow * work.oddRows;
  if (work.hasSums)
    threads *= 1.0 + k.sumsChain * std::clamp(work.chain / k.chainHidden - 1.0, 0.0, 1.0);
  threads /= shareAtWork(work, target, k);
  const double tiles = k.workMultiplyAdd * work.multiplyAdds +
                       k.workTileElement * work.tileElements + k.workTile * work.tiles;
  const double idle =
      work.tiles > 0 ? std::max(1.0, k.tilesEnough * target.multiprocessors / work.tiles) : 1.0;
  return std::max((threads + tiles * idle) / (k.issued * target.multiprocessors),
                  exponentialsOf(work, target));
}

/// us of two things that go on at a time, each of which hides a part of the other.
static double together(double a, double b, double exponent) {
  const double longer = std::max(a, b);
  if (longer == 0.0)
    return 0.0;
  return longer * std::pow(1.0 + std::pow(std::min(a, b) / longer, exponent), 1.0 / exponent);
}

/// us of sums down columns, behind the rows'.
static double summingOf(const Work& work, double ahead, const Target& target,
                        const CostConstants& k) {
  const double lines = std::min(double(target.multiprocessors), work.rows / k.sumsRows);
  const double busy = lines / target.multiprocessors;
  return k.sums * (work.bytesWritten > 0 ? 1.0 : k.sumsAlone) +
         k.sumsPartial * lines * work.summed + k.sumsLate * (1.0 - ahead) * busy;
}

double cheapestMicroseconds(const Work& work, const Target& target, const CostConstants& k) {
  const double nominal = target.memoryGBs * 1e3; // bytes a us
  const double memory =
      work.bytesRead / (k.readShare * nominal) + work.bytesWritten / (k.writeShare * nominal) +
      (k.bytesAgain * work.bytesAgain + k.rowValues * work.rowValueBytes) / nominal;
  const double moved =
      together(memory, issuingOf(work, target, k), work.hasSums ? k.sumsNorm : k.workNorm);
  const bool overlaps = target.has.programmaticLaunch; // with the kernel before
  const double chain = k.workChain * std::max(0.0, work.chain - k.chainHidden);
  double time = k.emptyKernel + (overlaps ? 0.0 : k.plainLaunch) + chain + moved;
  const double each = (work.bytesRead + work.bytesWritten) /
                      (target.multiprocessors * shareAtWork(work, target, k));
  const double ahead = !overlaps         ? 0.0
                       : work.readsAhead ? 1.0
                       : work.prefetches ? k.prefetched
                                         : 0.0;
  const double ramp = k.ramp + (work.hasRowsApart ? k.rampApart : 0.0) - ahead * k.readAhead;
  time += ramp * each / (each + k.rampBytes);
  if (work.hasSums)
    time += summingOf(work, ahead, target, k);
  return time;
}

double slowdown(double ratio, const CostConstants& k) {
  const auto fourth = [](double x) { return (x * x) * (x * x); };
  const double above = fourth(std::log(std::max(ratio, 1.0)));
  return std::exp(std::sqrt(std::sqrt(above + fourth(k.nearCheapest))) - k.nearCheapest);
}

} // namespace kiln::model
