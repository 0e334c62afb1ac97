// A device in a process of its own, so that a candidate that crashes, hangs or breaks the driver's
// context costs that process and nothing else. The supervisor kills it at a time limit, reads the
// end of what it printed, and starts another one with the next call. A worker whose supervisor is
// gone ends by itself, also in the middle of a kernel that hangs.
#pragma once

#include "autotune/measure/Wire.h"

#include <set>
#include <sys/types.h>

namespace kiln::autotune {

/// The file descriptor on which a worker finds its supervisor.
inline constexpr int kWorkerSocket = 3;

/// The whole life of a worker; returns its exit code. The device is made with the first request,
/// so that the supervisor is told why there is none.
int serve(const DeviceFactory& make, int socket = kWorkerSocket);

struct WorkerOptions {
  std::vector<std::string> command; // a program that calls `serve`, with its arguments
  std::chrono::milliseconds start{60'000};
  std::chrono::milliseconds compile{60'000};
  std::chrono::milliseconds prepare{1'200'000};
  /// And what preparing took, as often as numbers that seem wrong are looked at again.
  std::chrono::milliseconds verify{60'000};
  std::chrono::milliseconds time{60'000};
};

class Worker final : public Device {
 public:
  explicit Worker(WorkerOptions options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() override;

  void begin(const Task& task) override;
  Compiled compile(const Proposal& proposal) override;
  void prepare(const Artifact& artifact, std::uint64_t seed) override;
  Check verify(const Artifact& artifact, std::uint64_t seed) override;
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override;
  Conditions conditions() override;

  int starts() const { return startCount; }
  pid_t pid() const { return process; } // 0: none runs

 private:
  using Milliseconds = std::chrono::milliseconds;
  Message call(Message request, Milliseconds limit);
  Message answer(Milliseconds limit);
  void start();
  std::string load(const Artifact& artifact);
  void readLog();
  /// Ends the process and gives its wait status; its last words are in `log` then.
  int end();
  [[noreturn]] void died();

  WorkerOptions options;
  std::optional<Task> task;
  std::set<std::string> loaded;      // kernels that the process has
  std::chrono::seconds preparing{0}; // the longest of the task
  pid_t process = 0;
  int socket = -1, logPipe = -1;
  int startCount = 0;
  std::string log;
};

} // namespace kiln::autotune
