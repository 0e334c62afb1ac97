// A kernel that somebody wants, as the compiler's thread sees it: what to compile, for where, and
// what has come of it. Lives as long as the process.
#pragma once

#include "runtime/Backend.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace kiln::runtime {

/// What is compiled: a function of a module, or its derived backward.
struct OrderText {
  std::string module, function; // no name: the only one
  bool backward = false;
  std::string label;                 // "softmax 8192x128 bf16"
  std::vector<std::int64_t> sizes;   // of the first call
  bool onlyChosen = false;           // see Route
  std::vector<std::int64_t> usual{}; // sizes that the cost model chooses for; none: its usual ones
};

class Order {
 public:
  enum class State { queued, compiling, ready, aten, failed };

  Order(Backend& backend, int device) : backend(backend), device(device) {}
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  virtual OrderText text() const = 0;
  /// Called once, before anybody sees the kernel: throws Error for one that cannot be used.
  virtual void accept(const Kernel& made) = 0;

  Backend& backend;
  const int device;
  std::atomic<const Kernel*> kernel = nullptr; // lives as long as the process
  std::atomic<State> state = State::queued;    // set after `detail` and `kernel`
  std::string detail;                          // ready: where the kernel is from; else why not

  bool isSettled() const {
    State now = state.load(std::memory_order_acquire);
    return now != State::queued && now != State::compiling;
  }

 protected:
  ~Order() = default;
};

/// What has become of an order, for people.
std::string stateOf(const Order& order);

} // namespace kiln::runtime
