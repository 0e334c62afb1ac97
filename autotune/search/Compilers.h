// Compiles ahead of the device, on several threads, each with a compiler of its own. Schedules are
// compiled in the order in which they were wanted; while none is left, those of the next task.
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

  /// Forgets what was wanted for other tasks.
  void begin(const Task& task);
  void want(const Proposal& proposal);
  /// For the task that begins next, it is expected.
  void wantAhead(const Task& next, std::span<const Proposal> proposals);
  /// Waits until it is done. What was not wanted is wanted first of all now. A compiler that
  /// crashes or hangs rejects the schedule; what it throws otherwise is thrown here.
  Compiled take(const Proposal& proposal);

 private:
  struct Entry {
    std::optional<Compiled> compiled;
    std::exception_ptr error;
  };
  struct Work {
    explicit Work(const Task& task) : task(task) {}
    const Task task;
    std::deque<Proposal> queue;
    std::map<std::string, Entry> entries; // by schedule
  };
  void work(const std::stop_token& stop);
  static bool add(Work& to, const Proposal& proposal);

  DeviceFactory make;
  std::mutex mutex;
  std::condition_variable_any wanted, done;
  std::shared_ptr<Work> current, next;
  std::vector<std::jthread> threads;
};

} // namespace kiln::autotune
