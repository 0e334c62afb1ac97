// What is known of one key: its kernel when there is one, and how often it was called.
#pragma once

#include "runtime/Key.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace kiln::runtime {

class Kernel;
class Site;

struct Plan {
  enum class State { queued, compiling, ready, aten, failed };

  Plan(Site& site, const Key& key, std::int64_t rows) : site(site), key(key), firstRows(rows) {}

  Site& site;
  const Key key;
  const std::int64_t firstRows;                 // of the first call
  std::atomic<const Kernel*> kernel = nullptr;  // lives as long as the process
  std::atomic<State> state = State::queued;     // set after `detail` and `kernel`
  std::string detail;                           // ready: where the kernel is from; else why not
  std::atomic<std::uint64_t> used = 0;          // calls that ran it
  std::atomic<std::uint64_t> missed = 0;        // calls before it was there, or without it
  std::atomic<std::uint64_t> missedInGraph = 0; // those of them that were being captured
  std::atomic<std::uint64_t> verified = 0, differed = 0;

  bool isSettled() const {
    State now = state.load(std::memory_order_acquire);
    return now != State::queued && now != State::compiling;
  }
};

} // namespace kiln::runtime
