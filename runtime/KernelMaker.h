// Gives orders their kernels: what a store has chosen, else the cost model's choice, compiled. Who
// asks, in which thread and around which forks, is Compiler.h's business.
#pragma once

#include "kiln/tuner.h"
#include "runtime/Compiler.h"
#include "runtime/Order.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace kiln::runtime {

class Stores;

class KernelMaker {
 public:
  KernelMaker() = default;
  /// In a child process: what the parent has counted, and its kernels if it was in the middle of
  /// nothing.
  KernelMaker(const KernelMaker& parent, bool isWhole);

  /// Gives the order its kernel, or the reason why it gets none.
  void settle(Order& order, const Stores& from);
  /// From any thread.
  KernelCounts counts() const { return {storedCount, compiledCount}; }

 private:
  Order::State make(Order& order, const OrderText& text, const Stores& from);
  /// What a store has chosen.
  Order::State take(Order& order, const Tuned& tuned, const TuningTask& task, bool onlyGains);
  void publish(Order& order, std::shared_ptr<Kernel> kernel);

  std::atomic<std::size_t> storedCount = 0, compiledCount = 0;
  std::map<std::string, std::shared_ptr<Kernel>> compiled; // by what their text depends on
  // They live as long as the process: routers hold their addresses.
  std::deque<std::shared_ptr<Kernel>> kernels;
};

} // namespace kiln::runtime
