// See Moves.h.
#include "autotune/search/Moves.h"

#include <algorithm>

namespace kiln::autotune {

bool isNear(const rows::Schedule& a, const rows::Schedule& b) {
  int changed = 0;
  bool stepped = true;
  auto number = [&](std::int64_t from, std::int64_t to) {
    changed += from != to;
    stepped &= std::max(from, to) <= 2 * std::min(from, to);
  };
  number(a.lanes, b.lanes);
  number(a.vector, b.vector);
  number(a.rows, b.rows);
  // Of a cluster all threads, and how many are resident: a block of twice the threads is near.
  number(a.threads * a.cluster, b.threads * b.cluster);
  number(a.blocks * b.cluster, b.blocks * a.cluster);
  changed += (a.columns != b.columns) + (a.cluster != b.cluster);
  // What belongs together is one knob: a ring has its stages and its launch.
  changed += a.keep != b.keep || a.stages != b.stages || a.grid != b.grid || a.launch != b.launch;
  return stepped && changed >= 1 && changed <= 2;
}

std::vector<std::size_t> neighbours(std::span<const Candidate> space, std::size_t from,
                                    std::size_t count,
                                    const std::function<bool(std::size_t)>& isWanted) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < space.size() && found.size() < count; ++i)
    if (i != from && isNear(space[from].schedule, space[i].schedule) && isWanted(i))
      found.push_back(i);
  return found;
}

} // namespace kiln::autotune
