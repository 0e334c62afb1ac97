// See Facts.h.
#include "autotune/Facts.h"

#include "codegen/backend/Fail.h"
#include "codegen/backend/Symbols.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/ListPlan.h"
#include "codegen/program/State.h"
#include "codegen/segments/Partition.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

template <class... Cases> struct Either : Cases... {
  using Cases::operator()...;
};

/// Values that differ by row have 4 bytes.
double rowBytes(const std::vector<rows::Facts::Stream>& streams, std::int64_t width, int perRow) {
  double bytes = 4.0 * perRow;
  for (const auto& stream : streams)
    bytes += static_cast<double>(stream.bytes * width);
  return bytes;
}

KernelFacts rowFacts(passes::PlannedKernel& kernel, const std::vector<std::int64_t>& sizes) {
  rows::Facts facts = passes::factsOf(kernel);
  KernelFacts found{kernel.op.getName().str(), {}};
  if (!sizes.empty()) {
    found.rows = 1;
    for (const Extent& extent : kernel.space)
      found.rows *= static_cast<double>(
          extent.isStatic() ? extent.size
                            : sizes[std::min<std::size_t>(extent.symbol, sizes.size() - 1)]);
    if (found.rows > static_cast<double>(maxRows))
      fail(ErrorKind::input, "kernel '{}': {} rows, a kernel counts up to {}; split the batch",
           found.name, static_cast<std::int64_t>(std::min(found.rows, 1e18)), maxRows);
    facts.rows = static_cast<std::int64_t>(found.rows);
  } else if (facts.rows >= 0) {
    found.rows = static_cast<double>(facts.rows);
  }
  found.facts = std::move(facts);
  return found;
}

} // namespace

double KernelFacts::bytesRead() const {
  return rows * std::visit(Either{[](const rows::Facts& f) {
                                    return rowBytes(f.inputs, f.width, f.rowInputs);
                                  },
                                  [](const segments::Facts& f) { return double(f.bytesRead); }},
                           facts);
}
double KernelFacts::bytesWritten() const {
  return rows * std::visit(Either{[](const rows::Facts& f) {
                                    return rowBytes(f.outputs, f.width, f.rowOutputs);
                                  },
                                  [](const segments::Facts& f) { return double(f.bytesWritten); }},
                           facts);
}
std::int64_t KernelFacts::sharedBytes(const rows::Schedule& schedule) const {
  const auto* ofRows = std::get_if<rows::Facts>(&facts);
  return ofRows ? rows::sharedBytes(schedule, *ofRows) : 0;
}
std::int64_t KernelFacts::registers(const rows::Schedule& schedule) const {
  return std::visit(
      Either{
          [&](const rows::Facts& f) { return rows::estimatedRegisters(schedule, f); },
          [](const segments::Facts& f) { return std::int64_t(segments::estimatedRegisters(f)); }},
      facts);
}

std::vector<KernelFacts> factsOf(const std::string& text, const std::vector<std::int64_t>& sizes) {
  program::Session session;
  auto module = session.parse(text, "<fused>");
  auto function = passes::findFunction(*module, "");
  if (failed(function))
    session.fail("finding the function");
  std::vector<KernelFacts> all;
  if (segments::isOverLists(*function)) {
    auto plan = passes::planLists(*function);
    if (failed(plan))
      session.fail("planning");
    const LaunchPlan& launch = (*plan)->launch;
    checkSizes(launch.function, launch.inputs, launch.outputs, sizes);
    for (passes::ListKernel& kernel : (*plan)->kernels)
      all.push_back({kernel.op.getName().str(), kernel.facts, kTypicalElements});
    return all;
  }
  auto plan = passes::planFunction(*function);
  if (failed(plan))
    session.fail("planning");
  const LaunchPlan& launch = (*plan)->launch;
  checkSizes(launch.function, launch.inputs, launch.outputs, sizes);
  for (passes::PlannedKernel& kernel : (*plan)->kernels)
    if (kernel.takesSchedule())
      all.push_back(rowFacts(kernel, sizes));
  return all;
}

Space enumerate(const KernelFacts& kernel, const Target& target, bool explain) {
  return std::visit(
      Either{[&](const rows::Facts& f) { return enumerate(f, target, explain); },
             [&](const segments::Facts& f) { return enumerate(f, target, kernel.rows, explain); }},
      kernel.facts);
}

Cost costOf(const rows::Schedule& schedule, const KernelFacts& kernel, const Target& target,
            const CostConstants& k) {
  return std::visit(
      [&](const auto& facts) { return costOf(schedule, facts, target, kernel.rows, k); },
      kernel.facts);
}

Work workOf(const KernelFacts& kernel) {
  return std::visit([&](const auto& facts) { return workOf(facts, kernel.rows); }, kernel.facts);
}

Candidate candidateOf(const rows::Schedule& schedule, const KernelFacts& kernel,
                      const Target& target) {
  Candidate candidate{schedule, costOf(schedule, kernel, target)};
  const std::vector<Candidate> all = enumerate(kernel, target, /*explain=*/false).feasible;
  const auto cheapest =
      std::ranges::min_element(all, {}, [](const Candidate& one) { return one.cost.total; });
  const double ratio = cheapest == all.end() ? 1.0 : candidate.cost.total / cheapest->cost.total;
  candidate.microseconds = cheapestMicroseconds(workOf(kernel), target) * slowdown(ratio);
  return candidate;
}

} // namespace kiln::autotune
