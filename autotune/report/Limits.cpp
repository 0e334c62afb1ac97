// See Limits.h.
#include "autotune/report/Limits.h"

#include "autotune/Kernels.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

bool isOfBytes(const Line& line) {
  constexpr double kRounding = 1.001; // of the numbers of the store
  return line.roofline <= kRounding * line.bytes / (findTarget(line.arch).memoryGBs * 1e3);
}

std::string limitOf(const Line& line, const Store& store) {
  if (line.roofline <= 0)
    return "";
  if (isOfBytes(line))
    return "bytes";
  const std::optional<Task> task = store.task(store.keyStartingWith(line.key).key);
  return task ? std::string(rooflineOf(*task).limit) : "";
}

} // namespace

void nameLimits(Report& report, const Store& store) {
  for (Line& line : report.lines)
    try {
      line.rooflineLimit = limitOf(line, store);
    } catch (const Error&) {
      line.rooflineLimit.clear();
    }
}

} // namespace kiln::autotune
