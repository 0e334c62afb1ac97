// See Rejections.h.
#include "autotune/report/Rejections.h"

#include <algorithm>

namespace kiln::autotune {

void RejectionsByRule::add(const Rejection& candidate) {
  constexpr std::string_view sameCode = "the same code"; // what follows names a schedule
  count(candidate.gate + ": " +
            (candidate.constraint.starts_with(sameCode) ? "the same code as another"
                                                        : candidate.constraint),
        1, candidate.schedule);
}

void RejectionsByRule::add(const std::string& rule, std::int64_t schedules,
                           const std::string& worst) {
  count("constraints: " + rule, schedules, worst);
}

std::vector<kiln::Rejection> RejectionsByRule::list() const {
  std::vector<kiln::Rejection> all;
  for (const auto& [reason, rejection] : byReason)
    all.push_back(rejection);
  std::ranges::stable_sort(all, std::greater{}, &kiln::Rejection::count);
  return all;
}

void RejectionsByRule::count(const std::string& reason, std::int64_t schedules,
                             const std::string& worst) {
  kiln::Rejection& rejection = byReason[reason];
  rejection.reason = reason;
  rejection.count += schedules;
  rejection.worst = worst;
}

} // namespace kiln::autotune
