// Over operations that nobody on the host waits for, those of GPUs: a thread that finds those that
// have failed or run out of time.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace kiln::dist {

/// What an operation is called in errors.
struct Operation {
  const char* name;
  std::size_t bytes;
  std::int64_t step;
};

class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called once, from the thread, of the first operation that does not end as it should. `look`,
  /// called while one does not end, says whether another rank has failed.
  Watch(std::chrono::milliseconds limit, std::function<bool()> look,
        std::function<void(const Operation&, const std::string& why)> failed);
  ~Watch();

  void add(c10::intrusive_ptr<c10d::Work> work, const Operation& operation);

 private:
  struct Watched {
    c10::intrusive_ptr<c10d::Work> work;
    Operation operation;
    Clock::time_point since;
  };
  void watch();
  bool isWell(std::unique_lock<std::mutex>& lock);

  std::chrono::milliseconds limit;
  std::function<bool()> look;
  std::function<void(const Operation&, const std::string&)> failed;
  std::mutex mutex;
  std::condition_variable change;
  std::list<Watched> all;
  bool ends = false;
  std::thread thread;
};

} // namespace kiln::dist
