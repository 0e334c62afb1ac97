// The current policy, and kiln::Guard. A guard is a piece of c10's thread-local debug information:
// of all that a thread carries this is what autograd installs in the threads of a backward.
#include "runtime/Policy.h"

#include "runtime/Site.h"

#include <atomic>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <deque>
#include <mutex>

namespace kiln {

using runtime::Policy;

namespace {

/// A kind that nothing of Torch itself uses; it has none for others.
constexpr auto kind = c10::DebugInfoKind::TEST_INFO_2;

struct Scope : c10::DebugInfoBase {
  explicit Scope(const Policy& policy) : policy(policy) {}
  Policy policy;
};

const Policy off;
std::atomic<const Policy*> ofProcess = &off;

} // namespace

namespace runtime {

const Policy& currentPolicy() {
  if (c10::DebugInfoBase* info = c10::ThreadLocalDebugInfo::get(kind)) [[unlikely]]
    return static_cast<const Scope*>(info)->policy;
  return *ofProcess.load(std::memory_order_acquire);
}

void setPolicy(const Policy& policy) {
  static std::mutex mutex;
  static auto* all = new std::deque<Policy>; // readers may still hold older ones
  std::lock_guard held(mutex);
  ofProcess.store(&all->emplace_back(policy), std::memory_order_release);
}

} // namespace runtime

struct Guard::State {
  c10::DebugInfoGuard guard;
};

Guard::Guard(const Options& options)
    : state_(new State{
          c10::DebugInfoGuard(kind, std::make_shared<Scope>(runtime::scopedPolicy(options)))}) {}

Guard::Guard(Mode mode)
    : Guard([mode] {
        Options options = Options::fromEnvironment();
        options.mode = mode;
        return options;
      }()) {}

Guard::~Guard() = default;

} // namespace kiln
