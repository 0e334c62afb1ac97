// See Ledger.h.
#include "runtime/optim/Ledger.h"

#include "runtime/Log.h"
#include "runtime/Policy.h"
#include "runtime/Report.h"

#include <atomic>
#include <map>
#include <mutex>

namespace kiln::optim {

namespace {

struct Ledger {
  std::atomic<std::uint64_t> byLists = 0;
  std::mutex mutex;
  struct Refusal {
    std::string example;
    std::uint64_t steps = 0;
  };
  std::map<std::string, Refusal> refusals;
};
Ledger& ledger() {
  static auto* one = new Ledger;
  return *one;
}
constexpr const char* kName = "optim.AdamW";

} // namespace

void countByLists() {
  ledger().byLists.fetch_add(1, std::memory_order_relaxed);
}

void countByTorch(const std::string& reason, const std::string& example) {
  if (runtime::currentPolicy().strict)
    throw Error(ErrorKind::input,
                fmt::format("{} of {} is not taken: {}; without KILN_STRICT torch's formulas "
                            "compute it",
                            kName, example, reason));
  std::lock_guard held(ledger().mutex);
  auto [found, isNew] = ledger().refusals.try_emplace(reason);
  if (isNew) {
    found->second.example = example;
    runtime::log("{}: {} is not taken: {}", kName, example, reason);
  }
  ++found->second.steps;
}

std::string ledgerRows() {
  std::string rows;
  auto add = [&](const std::string& example, std::uint64_t calls, std::uint64_t used,
                 const std::string& text) {
    rows += runtime::reportRow(kName, example, calls, used, text);
  };
  if (const std::uint64_t used = ledger().byLists)
    add("steps", used, used, "kernels over lists of tensors");
  std::lock_guard held(ledger().mutex);
  for (const auto& [reason, refusal] : ledger().refusals)
    add(refusal.example, refusal.steps, 0, "not taken: " + reason.substr(0, reason.find('\n')));
  return rows;
}

} // namespace kiln::optim
