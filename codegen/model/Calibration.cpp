// See Calibration.h. bench/fit_cost fits the constants to times of tuned stores and says how well
// they do for keys, and for ops, that it did not see.
#include "codegen/model/Calibration.h"

#include <algorithm>
#include <cmath>

namespace kiln::model {

double exponentialsOf(const Work& work, const Target& target) {
  return work.exponentials / (target.exponentials * target.clockGHz * 1e3 * target.multiprocessors);
}

double cheapestMicroseconds(const Work& work, const Target& target, const CostConstants& k) {
  const double nominal = target.memoryGBs * 1e3; // bytes a us
  const double memory = work.bytesRead / (k.readShare * nominal) +
                        work.bytesWritten / (k.writeShare * nominal) +
                        k.rowValues * work.rowValueBytes / nominal;
  const double issued = k.workOperation * work.operations + k.workErf * work.erfs;
  const double issuing =
      std::max(issued / (k.issued * target.multiprocessors), exponentialsOf(work, target));
  const double longer = std::max(memory, issuing), shorter = std::min(memory, issuing);
  const bool overlaps = target.has.programmaticLaunch; // with the kernel before
  double time = k.emptyKernel + (overlaps ? 0.0 : k.plainLaunch);
  if (longer > 0.0)
    time += longer * std::pow(1.0 + std::pow(shorter / longer, k.workNorm), 1.0 / k.workNorm);
  const double each = (work.bytesRead + work.bytesWritten) / target.multiprocessors;
  time +=
      (k.ramp - (work.readsAhead && overlaps ? k.readAhead : 0.0)) * each / (each + k.rampBytes);
  if (work.hasSums) {
    const double lines = std::min(double(target.multiprocessors), work.rows / k.sumsRows);
    time += k.sums + k.sumsPartial * lines * work.summed;
  }
  return time;
}

double slowdown(double ratio, const CostConstants& k) {
  const double above = std::log(std::max(ratio, 1.0));
  return std::exp(std::hypot(above, k.nearCheapest) - k.nearCheapest);
}

} // namespace kiln::model
