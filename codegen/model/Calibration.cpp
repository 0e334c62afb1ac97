// See Calibration.h. bench/fit_cost fits the constants to times of tuned stores and says how well
// they do for keys, and for ops, that it did not see.
#include "codegen/model/Calibration.h"

#include <algorithm>
#include <cmath>

namespace kiln::model {

double exponentialsOf(const Work& work, const Target& target) {
  return work.exponentials / (target.exponentials * target.clockGHz * 1e3 * target.multiprocessors);
}

/// us to issue the instructions that there are.
static double issuingOf(const Work& work, const Target& target, const CostConstants& k) {
  const double threads = k.workOperation * work.operations + k.workErf * work.erfs +
                         k.workRoot * work.roots + k.workRandom * work.randoms;
  const double tiles = k.workMultiplyAdd * work.multiplyAdds +
                       k.workTileElement * work.tileElements + k.workTile * work.tiles;
  const double idle =
      work.tiles > 0 ? std::max(1.0, k.tilesEnough * target.multiprocessors / work.tiles) : 1.0;
  return std::max((threads + tiles * idle) / (k.issued * target.multiprocessors),
                  exponentialsOf(work, target));
}

/// us of sums down columns, behind the rows'.
static double summingOf(const Work& work, bool readsAhead, const Target& target,
                        const CostConstants& k) {
  const double lines = std::min(double(target.multiprocessors), work.rows / k.sumsRows);
  const double busy = lines / target.multiprocessors;
  return k.sums * (work.bytesWritten > 0 ? 1.0 : k.sumsAlone) * (1.0 - k.sumsFew * (1.0 - busy)) +
         k.sumsPartial * lines * work.summed + (readsAhead ? 0.0 : k.sumsLate * busy);
}

double cheapestMicroseconds(const Work& work, const Target& target, const CostConstants& k) {
  const double nominal = target.memoryGBs * 1e3; // bytes a us
  const double memory =
      work.bytesRead / (k.readShare * nominal) + work.bytesWritten / (k.writeShare * nominal) +
      (k.bytesAgain * work.bytesAgain + k.rowValues * work.rowValueBytes) / nominal;
  const double issuing = issuingOf(work, target, k);
  const double longer = std::max(memory, issuing), shorter = std::min(memory, issuing);
  const bool overlaps = target.has.programmaticLaunch; // with the kernel before
  const double chain = k.workChain * std::max(0.0, work.chain - k.chainHidden);
  double time = k.emptyKernel + (overlaps ? 0.0 : k.plainLaunch) + chain;
  if (longer > 0.0)
    time += longer * std::pow(1.0 + std::pow(shorter / longer, k.workNorm), 1.0 / k.workNorm);
  const double each = (work.bytesRead + work.bytesWritten) / target.multiprocessors;
  const bool readsAhead = work.readsAhead && overlaps;
  time += (k.ramp - (readsAhead ? k.readAhead : 0.0)) * each / (each + k.rampBytes);
  if (work.hasSums)
    time += summingOf(work, readsAhead, target, k);
  return time;
}

double slowdown(double ratio, const CostConstants& k) {
  const double above = std::log(std::max(ratio, 1.0));
  return std::exp(std::hypot(above, k.nearCheapest) - k.nearCheapest);
}

} // namespace kiln::model
