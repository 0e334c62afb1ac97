// See Site.h. The table of plans is replaced as a whole when one is added; readers never wait.
#include "runtime/Site.h"

#include "runtime/Call.h"
#include "runtime/Compiler.h"
#include "runtime/Log.h"
#include "runtime/Route.h"

#include <bit>
#include <fmt/ranges.h>

namespace kiln::runtime {

std::string labelOf(const Key& key, std::int64_t rows) {
  return fmt::format("{}x{} {}", rows, key.width, name(key.dtypes[0]));
}

Plan* Site::find(const Key& key) const {
  const auto* now = table.load(std::memory_order_acquire);
  if (!now)
    return nullptr;
  const std::size_t mask = now->size() - 1;
  for (std::size_t i = key.hash() & mask;; i = (i + 1) & mask)
    if (Plan* plan = (*now)[i]; !plan || plan->key == key)
      return plan;
}

/// A table of all that is known, at most half full. Holds the mutex.
void Site::publish() {
  auto& next = tables.emplace_back(std::bit_ceil(known.size() * 2 + 2));
  for (Plan& plan : known) {
    std::size_t i = plan.key.hash() & (next.size() - 1);
    while (next[i])
      i = (i + 1) & (next.size() - 1);
    next[i] = &plan;
  }
  table.store(&next, std::memory_order_release);
}

Plan& Site::plan(const Key& key, std::int64_t rows) {
  if (Plan* plan = find(key)) [[likely]]
    return *plan;
  std::lock_guard held(mutex);
  if (Plan* plan = find(key))
    return *plan;
  Plan& plan = known.emplace_back(*this, key, rows);
  publish();
  enqueue(plan);
  return plan;
}

const Kernel* Site::withoutKernel(Plan& plan, const Policy& policy) {
  if (policy.strict) {
    waitFor(plan);
    if (const Kernel* kernel = plan.kernel.load(std::memory_order_acquire))
      return kernel;
    if (plan.state == Plan::State::failed)
      throw Error(ErrorKind::infeasible,
                  fmt::format("{} {}: no kernel: {}; without KILN_STRICT ATen's runs", route.name,
                              labelOf(plan.key, plan.firstRows), plan.detail));
  }
  plan.missed.fetch_add(1, std::memory_order_relaxed);
  if (!plan.isSettled() && backend.isCapturing())
    plan.missedInGraph.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void Site::refuse(const char* reason, const at::Tensor& example, const Policy& policy) {
  auto text = [&] {
    return example.defined() ? fmt::format("[{}] {}", fmt::join(example.sizes(), ", "),
                                           c10::toString(example.scalar_type()))
                             : std::string("undefined");
  };
  for (Refusal& one : refused) {
    const char* known = one.reason.load(std::memory_order_acquire);
    if (!known) {
      std::lock_guard held(mutex);
      known = one.reason.load(std::memory_order_relaxed);
      if (!known) {
        one.example = text();
        one.reason.store(known = reason, std::memory_order_release);
        log("{}: {} is not taken: {}", route.name, one.example, reason);
      }
    }
    if (known == reason) {
      one.calls.fetch_add(1, std::memory_order_relaxed);
      break;
    }
  }
  if (policy.strict && reason != kEmpty)
    throw Error(ErrorKind::input, fmt::format("{} of {} is not taken: {}; without KILN_STRICT ATen "
                                              "computes it",
                                              route.name, text(), reason));
}

std::vector<const Plan*> Site::plans() const {
  std::lock_guard held(mutex);
  std::vector<const Plan*> all;
  for (const Plan& plan : known)
    all.push_back(&plan);
  return all;
}

} // namespace kiln::runtime
