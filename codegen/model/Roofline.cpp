// See Roofline.h.
#include "codegen/model/Roofline.h"

#include <algorithm>
#include <array>

namespace kiln::model {
namespace {

struct Side {
  const char* name;
  double Roofline::* time;
};
/// Of equal ones the first is the limit.
constexpr std::array<Side, 3> kSides{{{"bytes", &Roofline::bytes},
                                      {"tensor cores", &Roofline::tensorCores},
                                      {"exponentials", &Roofline::exponentials}}};

const Side& longest(const Roofline& roofline) {
  return *std::ranges::max_element(kSides, {},
                                   [&](const Side& side) { return roofline.*side.time; });
}

} // namespace

double Roofline::microseconds() const {
  return this->*longest(*this).time;
}

std::string_view Roofline::limit() const {
  return longest(*this).name;
}

Roofline rooflineOf(const KernelModel& kernel, const Target& target) {
  const Work work = kernel.work();
  const double clocks = target.clockGHz * 1e3 * target.multiprocessors; // of all, in a us
  Roofline result;
  result.bytes = (kernel.bytesRead() + kernel.bytesWritten()) / (target.memoryGBs * 1e3);
  for (std::size_t type = 0; type < work.matrixOperations.size(); ++type)
    if (work.matrixOperations[type] > 0 && target.matrixOps[type] > 0)
      result.tensorCores += work.matrixOperations[type] / (target.matrixOps[type] * clocks);
  result.exponentials = exponentialsOf(work, target);
  return result;
}

RooflineOfAll rooflineOf(const std::vector<Roofline>& kernels) {
  RooflineOfAll all;
  Roofline shares; // of all that time by what limits
  for (const Roofline& kernel : kernels) {
    all.microseconds += kernel.microseconds();
    shares.*longest(kernel).time += kernel.microseconds();
  }
  all.limit = shares.limit();
  return all;
}

} // namespace kiln::model
