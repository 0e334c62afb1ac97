// Compiles ahead of the device, on several threads, each with a compiler of its own. Schedules are
// compiled in the order in which they were wanted.
#pragma once

#include "autotune/measure/Device.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace kiln::autotune {

class Compilers {
 public:
  /// `threads` 0: one a core.
  Compilers(DeviceFactory make, unsigned threads);
  Compilers(const Compilers&) = delete;
  Compilers& operator=(const Compilers&) = delete;
  ~Compilers();

  /// Forgets what was wanted for the task before.
  void begin(const Task& task);
  void want(const Proposal& proposal);
  /// Waits until it is done. What was not wanted is wanted first of all now. A compiler that
  /// crashes or hangs rejects the schedule; what it throws otherwise is thrown here.
  Compiled take(const Proposal& proposal);

 private:
  struct Entry {
    std::optional<Compiled> compiled;
    std::exception_ptr error;
  };
  void work(const std::stop_token& stop);

  DeviceFactory make;
  std::mutex mutex;
  std::condition_variable_any wanted, done;
  Task task;
  std::uint64_t generation = 0; // counts tasks
  std::deque<Proposal> queue;
  std::map<std::string, Entry> entries; // by schedule
  std::vector<std::jthread> threads;
};

} // namespace kiln::autotune
