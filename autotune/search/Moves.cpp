// See Moves.h.
#include "autotune/search/Moves.h"

namespace kiln::autotune {

std::vector<std::size_t> neighbours(const KernelSpace& space, std::size_t from, std::size_t count,
                                    const std::function<bool(std::size_t)>& isWanted) {
  const std::vector<Candidate>& all = space.feasible;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size() && found.size() < count; ++i)
    if (i != from && space.model->isNear(all[from].schedule, all[i].schedule) && isWanted(i))
      found.push_back(i);
  return found;
}

} // namespace kiln::autotune
