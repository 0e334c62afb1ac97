// One routed op at one dispatch key: its plans, and what it refused, counted by reason.
#pragma once

#include "runtime/Backend.h"
#include "runtime/Plan.h"
#include "runtime/Policy.h"
#include "runtime/Table.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace kiln::runtime {

struct Call;
struct Route;

class Site {
 public:
  Site(const Route& route, Backend& backend) : route(route), backend(backend) {}

  const Route& route;
  Backend& backend;
  c10::DispatchKey key() const;
  /// The kernel that was there before; none where ATen has none for this device.
  std::optional<c10::SafeKernelFunction> previous;
  bool previousIsATen = false;

  /// The plan of a call's key; asked for the first time it is queued for compilation. No lock
  /// otherwise.
  Plan& plan(const Call& call);
  /// A plan without a kernel: counts the call, or waits for the kernel, in strict mode and where
  /// ATen would hold `formulaBytes` that are too many.
  const Kernel* withoutKernel(Plan& plan, const Policy& policy, std::int64_t formulaBytes);
  /// Counts a call that is not taken, `example` being its first tensor; an error in strict mode.
  void refuse(const char* reason, const at::Tensor& example, const Policy& policy);
  /// Counts a call for a reason, compared by address; `exampleOf` it is asked for the first time.
  template <typename Text> void count(const char* reason, const Text& exampleOf) {
    for (Refusal& one : refused) {
      const char* known = one.reason.load(std::memory_order_acquire);
      if (!known)
        known = claim(one, reason, exampleOf());
      if (known == reason) {
        one.calls.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
  }

  struct Refusal {
    std::atomic<const char*> reason = nullptr;
    std::atomic<std::uint64_t> calls = 0;
    std::string example; // written before the reason is
  };
  std::span<const Refusal> refusals() const { return refused; }
  /// Every plan so far, for the report.
  std::vector<const Plan*> plans() const { return known.all(); }

 private:
  /// The reason that it is for from now on, if another thread was not first.
  const char* claim(Refusal& one, const char* reason, std::string example);

  std::array<Refusal, 24> refused; // an op has fewer reasons
  std::mutex mutex;                // of whoever adds one
  Table<Key, Plan> known;
};

/// All of a place. They are made, and their routers registered, at the first call; they stay.
std::deque<Site>& sitesOf(Place place);
/// The same, but none where they are not made yet.
std::deque<Site>* installedSites(Place place);

} // namespace kiln::runtime
