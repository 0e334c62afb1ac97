// What is switched on: for the process, by enable(), or for a scope, by a Guard. A policy never
// changes and lives forever, so that reading it takes no lock.
#pragma once

#include "kiln/torch.h"

#include <array>
#include <atomic>
#include <string_view>

namespace kiln::runtime {

/// Of Mode, in its order.
constexpr std::string_view kModeNames[] = {"use", "tune", "verify", "off", "record"};
constexpr std::string_view nameOf(Mode mode) {
  return kModeNames[static_cast<std::size_t>(mode)];
}

struct Policy {
  Mode mode = Mode::off;
  bool strict = false;
  std::int64_t formulaBytes = 0;      // of Options
  std::array<std::uint64_t, 2> ops{}; // by place: a bit a routed op

  /// Whether lists of tensors, which no plan stands for, are Kiln's to compute.
  bool computesLists(Place place) const {
    return mode != Mode::off && mode != Mode::record && ops[static_cast<std::size_t>(place)] != 0;
  }
  bool takes(Place place, unsigned op) const {
    return (ops[static_cast<std::size_t>(place)] >> op & 1) != 0;
  }
};

/// What the next functions read. A thread looks for a guard of its own only in a process that has
/// had one.
extern std::atomic<const Policy*> processPolicy;
extern std::atomic<bool> hadGuards;
const Policy& policyOfGuards();

/// Of this thread's guard, else of the process.
inline const Policy& currentPolicy() {
  if (hadGuards.load(std::memory_order_relaxed)) [[unlikely]]
    return policyOfGuards();
  return *processPolicy.load(std::memory_order_acquire);
}
void setPolicy(const Policy& policy);
/// Of options, for one place, and for both as a guard has it. Throws Error(input).
Policy policyOf(const Options& options);
Policy scopedPolicy(const Options& options);

} // namespace kiln::runtime
