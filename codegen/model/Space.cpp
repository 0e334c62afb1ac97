// See Space.h and KernelModel.h.
#include "codegen/model/Space.h"

#include "codegen/backend/Fail.h"
#include "codegen/model/KernelModel.h"

#include <algorithm>

namespace kiln::model {

void Sorter::add(const Schedule& schedule, const Cost& cost) {
  ++space.tuples;
  space.feasible.push_back({schedule, cost});
}

void Sorter::note(const std::vector<Violation>& violations) {
  Space::Refused& refused = space.refused[violations.front().rule];
  ++refused.count;
  refused.worst = violations.front().message;
}

void Sorter::refuse(std::string_view rule, std::int64_t count, std::string worst) {
  space.tuples += count;
  if (explain)
    space.refused[std::string(rule)] = {count, std::move(worst)};
}

/// Costs with their places are sorted, which are small, and the candidates moved once.
Space Sorter::take(double microseconds) {
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(space.feasible.size());
  for (const Candidate& candidate : space.feasible)
    order.emplace_back(candidate.cost.total, order.size());
  std::ranges::sort(order);
  std::vector<Candidate> sorted;
  sorted.reserve(order.size());
  for (const auto& [total, place] : order) {
    sorted.push_back(space.feasible[place]);
    sorted.back().microseconds = microseconds * slowdown(total / order.front().first);
  }
  space.feasible = std::move(sorted);
  return std::move(space);
}

void failWithReasons(const Space& space, const Target& target) {
  std::string reasons;
  for (const auto& [rule, refused] : space.refused)
    reasons += fmt::format("\n  {} by {}: {}", refused.count, rule, refused.worst);
  fail(ErrorKind::infeasible, "no schedule of {} fits {}:{}", space.tuples, target.arch, reasons);
}

Candidate candidateOf(const Schedule& schedule, const KernelModel& kernel, const Target& target) {
  Candidate candidate{schedule, kernel.cost(schedule, target)};
  const std::vector<Candidate> likely = kernel.space(target, Listing::likely).feasible;
  const auto cheapest =
      std::ranges::min_element(likely, {}, [](const Candidate& one) { return one.cost.total; });
  const double ratio = cheapest == likely.end() ? 1.0 : candidate.cost.total / cheapest->cost.total;
  candidate.microseconds = cheapestMicroseconds(kernel.work(), target) * slowdown(ratio);
  return candidate;
}

} // namespace kiln::model
