// The current policy, and kiln::Guard. A guard is a piece of c10's thread-local debug information:
// of all that a thread carries this is what autograd installs in the threads of a backward.
#include "runtime/Policy.h"

#include "runtime/Site.h"

#include <atomic>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln {

using runtime::Policy;

namespace {

/// A kind that nothing of Torch itself uses; it has none for others.
constexpr auto kind = c10::DebugInfoKind::TEST_INFO_2;

/// What a guard has begun. Its end is marked, and its thread passes over it from then on: c10 keeps
/// these as a stack, from whose middle nothing can be taken. To other threads, whose task began
/// while the guard was there, it stays what it was.
struct Scope final : c10::DebugInfoBase, std::enable_shared_from_this<Scope> {
  explicit Scope(const Policy& policy) : policy(policy) {}
  const Policy policy;
  std::shared_ptr<Scope> outer; // of the thread alone
  const std::thread::id thread = std::this_thread::get_id();
  std::atomic<bool> hasEnded = false;

  bool counts() const {
    return !hasEnded.load(std::memory_order_acquire) || thread != std::this_thread::get_id();
  }
};

Scope* top() {
  return static_cast<Scope*>(c10::ThreadLocalDebugInfo::get(kind));
}

/// Takes what has ended from this thread's stack, as far as nothing of another kind lies on it.
void dropEnded() {
  std::vector<std::shared_ptr<c10::DebugInfoBase>> left; // the innermost first
  while (top()) {
    std::shared_ptr<c10::DebugInfoBase> info;
    try {
      info = c10::ThreadLocalDebugInfo::_pop(kind);
    } catch (const c10::Error&) { // a profiler's, say, which began later
      break;
    }
    auto& scope = static_cast<Scope&>(*info);
    while (scope.thread == std::this_thread::get_id() && scope.outer && !scope.outer->counts())
      scope.outer = scope.outer->outer;
    if (scope.counts())
      left.push_back(std::move(info));
  }
  for (auto info = left.rbegin(); info != left.rend(); ++info)
    c10::ThreadLocalDebugInfo::_push(kind, std::move(*info));
}

constinit const Policy off;

} // namespace

namespace runtime {

constinit std::atomic<const Policy*> processPolicy = &off;
constinit std::atomic<bool> hadGuards = false;

const Policy& policyOfGuards() {
  for (const Scope* scope = top(); scope; scope = scope->outer.get())
    if (scope->counts())
      return scope->policy;
  return *processPolicy.load(std::memory_order_acquire);
}

void setPolicy(const Policy& policy) {
  static std::mutex mutex;
  static auto* all = new std::deque<Policy>; // readers may still hold older ones
  std::lock_guard held(mutex);
  processPolicy.store(&all->emplace_back(policy), std::memory_order_release);
}

} // namespace runtime

struct Guard::State {
  std::shared_ptr<c10::DebugInfoBase> scope;
};

Guard::Guard(const Options& options) {
  auto scope = std::make_shared<Scope>(runtime::scopedPolicy(options));
  runtime::hadGuards.store(true, std::memory_order_relaxed); // whoever gets the scope sees it
  dropEnded();
  if (Scope* outer = top())
    scope->outer = outer->shared_from_this();
  c10::ThreadLocalDebugInfo::_push(kind, scope);
  state_.reset(new State{std::move(scope)});
}

Guard::Guard(Mode mode)
    : Guard([mode] {
        Options options = Options::fromEnvironment();
        options.mode = mode;
        return options;
      }()) {}

Guard::~Guard() {
  auto& scope = static_cast<Scope&>(*state_->scope);
  scope.hasEnded.store(true, std::memory_order_release);
  if (scope.thread == std::this_thread::get_id())
    dropEnded(); // else its thread does so at its next guard
}

} // namespace kiln
