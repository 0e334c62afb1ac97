// kiln::profile: how fast a training loop runs, and where its time and memory go. Works on the CPU
// and on GPUs, through Kineto, which LibTorch brings along. Plain C++: no header of Torch.
//
//   auto profiler = kiln::profile::makeProfiler({.schedule = {.wait = 2, .warmup = 1, .active =
//   3}}); profiler.start(); for (...) {
//     {
//       auto range = kiln::profile::marked("forward");
//       ...
//     }
//     profiler.step();
//   }
//   profiler.stop();
//   profiler.printTopTables(std::cout);
//   profiler.exportTrace("step.json");   // for ui.perfetto.dev or chrome://tracing
#pragma once

#include "kiln/kiln.h"

#include <functional>
#include <iosfwd>

namespace kiln::profile {

struct MeterOptions {
  int warmup = 0;  // steps that the steady rate leaves out
  int window = 50; // steps that the window's rate looks back on
  /// Waits for the GPUs when the meter starts, when the warm-up ends and when it stops, so that the
  /// steady and overall rates are of work done, not of work enqueued.
  bool synchronize = true;
  std::function<double()> clock{}; // seconds; empty: a steady clock
};

/// Items a second: samples, tokens, whatever step() is told.
class KILN_API ThroughputMeter {
 public:
  explicit ThroughputMeter(const MeterOptions& options = {});

  void start(); // forgets what was before
  void step(std::int64_t items);
  void stop(); // the overall rate ends here; until then it goes on with the clock

  double overallRate() const; // from start() to stop(), all steps; 0 before anything was done
  double steadyRate() const;  // of the steps after the warm-up
  double windowRate() const;  // of the last `window` steps
  std::int64_t items() const { return itemCount; }
  std::int64_t steps() const { return stepCount; }
  /// "1536 items in 12 steps: 605.2 /s overall, 1326.6 /s steady after 2, 1330.1 /s last 10"
  std::string report() const;

 private:
  double now() const;
  void synchronize() const;

  MeterOptions options;
  struct Mark {
    double seconds = 0;
    std::int64_t items = 0;
  };
  Mark begin{}, steady{}, end{};
  std::vector<Mark> marks{}; // of the last steps, a ring
  std::int64_t itemCount = 0, stepCount = 0;
  bool running = false;
};

/// A range of this thread: in traces, in tables as an op with all below it, and to NVIDIA's tools.
class KILN_API Marked {
 public:
  explicit Marked(const std::string& name);
  ~Marked();
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
[[nodiscard]] inline Marked marked(const std::string& name) {
  return Marked(name);
}

/// Steps that nothing is recorded in, then steps in which recording is on already but not kept,
/// then those that are; `repeat` times, 0: for ever.
struct Schedule {
  int wait = 0, warmup = 0, active = 1, repeat = 1;
};
enum class Phase { idle, warmup, active };
KILN_API Phase phaseOf(const Schedule& schedule, std::int64_t step);

class Profiler;

struct ProfilerOptions {
  Schedule schedule{};
  bool shapes = true;  // of inputs, without which nothing can be grouped by them
  bool memory = false; // allocations and releases
  bool flops = false;
  /// Called at the end of each run of active steps, before the next one replaces its records.
  std::function<void(Profiler&)> onRecorded{};
};

/// Calls of one op, or of one op on one set of shapes, or of one kernel. Of an op, `total` counts
/// what it called and `self` does not; the device's time is that of the kernels it launched.
struct Row {
  std::string name, shapes;
  std::int64_t calls = 0;
  double selfCpuMicros = 0, cpuMicros = 0, selfDeviceMicros = 0, deviceMicros = 0;
  std::int64_t flops = 0;
};

struct MemoryEvent {
  double micros = 0;      // since the records begin
  std::string device;     // "cpu", "cuda:0"
  std::int64_t bytes = 0; // negative: released
  std::int64_t held = 0;  // on that device, behind this event, since the records begin
  std::string stack;      // ranges and ops around it, outermost first: "forward > aten::addmm"
};
struct Memory {
  std::vector<MemoryEvent> timeline;
  std::vector<MemoryEvent> peaks; // of each device: the allocation that reached it first
};

class KILN_API Profiler {
 public:
  explicit Profiler(const ProfilerOptions& options);
  ~Profiler();
  Profiler(Profiler&&) noexcept;
  Profiler& operator=(Profiler&&) noexcept;

  /// All three by one thread; what its backward does in autograd's threads is recorded too. One
  /// profiler at a time. Throws Error(input) where another is on.
  void start();
  void step();
  void stop();

  /// Of the last active steps; Error(input) if there were none. Largest first, by the device's time
  /// if there is any, else by the CPU's.
  std::vector<Row> ops(bool byShape = false) const;
  std::vector<Row> kernels() const;
  Memory memory() const; // empty without ProfilerOptions::memory

  /// Ops by the device's time, kernels by theirs, ops by their input's shapes, and ops by the CPU's
  /// time; without a GPU the last two.
  void printTopTables(std::ostream& out, std::size_t rows = 30) const;
  /// When most memory was held on each device, and the largest allocations before that.
  void printMemory(std::ostream& out, std::size_t rows = 10) const;

  /// Writes Chrome's trace of the last active steps, once: later calls return the first file.
  std::filesystem::path exportTrace(const std::filesystem::path& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Keeps the last `entries` allocations on GPUs with the stacks that made them, from here on; 0:
/// ends that. Throws Error(unavailable) without a GPU, as the next one.
KILN_API void recordMemoryHistory(std::size_t entries = 100'000);
/// Writes what is held on GPUs, and that history, for pytorch.org/memory_viz.
KILN_API std::filesystem::path exportMemorySnapshot(const std::filesystem::path& file);

KILN_API Profiler makeProfiler(const ProfilerOptions& options = {});

} // namespace kiln::profile
