// kiln::report: what was called, what ran, and why not otherwise, as a table for people.
#include "runtime/Report.h"

#include "runtime/Backends.h"
#include "runtime/Compiler.h"
#include "runtime/Log.h"
#include "runtime/Route.h"
#include "runtime/Site.h"
#include "runtime/Tally.h"
#include "runtime/fuse/Function.h"
#include "runtime/optim/Ledger.h"
#include "runtime/products/Routes.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln {

namespace runtime {

std::string stateOf(const Order& order) {
  switch (order.state.load(std::memory_order_acquire)) {
  case Order::State::queued:
    return "waits to be compiled";
  case Order::State::compiling:
    return "is being compiled";
  case Order::State::ready: {
    const Kernel& kernel = *order.kernel.load();
    return fmt::format("{}; {}", order.detail, kernel.arguments) +
           (kernel.launches > 1 ? fmt::format("; {} launches", kernel.launches) : "");
  }
  case Order::State::aten:
    return "left to ATen: " + order.detail;
  case Order::State::failed:
    return "no kernel: " + order.detail.substr(0, order.detail.find('\n'));
  }
  return "";
}

namespace {

constexpr const char kRow[] = "{:<28} {:<22} {:>10} {:>10}  {}\n";

} // namespace

std::string reportRow(std::string_view op, std::string_view what, std::uint64_t calls,
                      std::uint64_t used, std::string_view text) {
  return fmt::format(kRow, op, what, calls, used, text);
}

namespace {

void addPlans(const Site& site, std::string& text) {
  for (const Plan* plan : site.plans()) {
    const std::uint64_t used = plan->used, missed = plan->missed;
    std::string state = stateOf(*plan);
    if (const std::uint64_t captured = plan->missedInGraph)
      state += fmt::format("; {} captured into a graph before it was there", captured);
    if (const std::uint64_t verified = plan->verified)
      state += fmt::format("; {} of {} differ from ATen", plan->differed.load(), verified);
    text += reportRow(site.route.name, labelOf(site.route, plan->key, plan->firstSizes),
                      used + missed, used, state);
  }
}

void addRefusals(const Site& site, std::string& text) {
  for (const Site::Refusal& one : site.refusals())
    if (const char* reason = one.reason.load(std::memory_order_acquire))
      text += reportRow(site.route.name, one.example, one.calls.load(), 0,
                        fmt::format("not taken: {}", reason));
}

void addNote(const Site& site, std::string& text) {
  const auto plans = site.plans();
  if (site.route.note &&
      std::ranges::any_of(plans, [](const Plan* plan) { return plan->used > 0; }))
    text += fmt::format("note on {}: {}\n", site.route.name, site.route.note);
}

/// What kernels have counted; more than the last time goes to the log too.
void addTally(const Site& site, std::string& text) {
  if (!site.route.tally)
    return;
  Tally& tally = site.route.tally();
  const auto total = tally.total(site.backend);
  if (!total) {
    text += fmt::format("note on {}: an error of the device, or a capture, keeps from being read "
                        "how many {}\n",
                        site.route.name, tally.what);
  } else if (*total > 0) {
    const std::string line =
        fmt::format("warning on {}: {} {}", site.route.name, *total, tally.what);
    text += line + "\n";
    if (tally.told.exchange(*total) < *total)
      log("{}", line);
  }
}

} // namespace

} // namespace runtime

std::string report() {
  using namespace runtime;
  const Policy& policy = currentPolicy();
  std::string text = fmt::format("kiln {}: mode {}{}, stores: {}\n", version(), nameOf(policy.mode),
                                 policy.strict ? ", strict" : "", describeStores());
  if (const std::string why = gpuBackend().whyNot(); !why.empty())
    text += fmt::format("nothing is taken on a GPU: {}\n", why);
  std::string rows, notes;
  for (Place place : {Place::gpu, Place::cpu})
    if (const std::deque<Site>* sites = installedSites(place))
      for (const Site& site : *sites) {
        addPlans(site, rows);
        addRefusals(site, rows);
        addNote(site, notes);
        addTally(site, notes);
      }
  fusion::addFunctionsTo(rows);
  rows += optim::ledgerRows();
  addProductsTo(rows, notes);
  if (const auto [stored, compiled] = kernelCounts(); stored + compiled > 0)
    text += fmt::format("kernels: {} from stores, {} compiled\n", stored, compiled);
  if (rows.empty())
    return text + "no routed op was called, and no fused function\n";
  return text + fmt::format(kRow, "op", "rows x width, dtype", "calls", "by Kiln", "kernel") +
         rows + notes;
}

} // namespace kiln
