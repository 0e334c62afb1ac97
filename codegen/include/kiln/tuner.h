// Tuned kernels for a program that runs: opens the stores once, loads what the program needs, and
// then answers in nanoseconds. What no store has is made only if the mode says so. Plain C++20: no
// Torch, MLIR or SQLite.
//
//   auto tuner = kiln::Tuner::open();
//   tuner.warmup(tasks);                            // milliseconds a task
//   auto name = tuner.name(tasks[0]);               // once
//   if (const kiln::Tuned* tuned = tuner.lookup(name))
//     tuned->executable().launch(inputs, outputs, workspace, stream);
#pragma once

#include "kiln/cache.h"

#include <functional>
#include <map>

namespace kiln {

/// Names a task in lookups. Equal tasks have equal names, in every process of a program.
class KILN_API TaskName {
 public:
  /// The name of the same task with these run-time sizes; cheap enough for every call.
  TaskName with(std::span<const std::int64_t> sizes) const {
    TaskName name = *this;
    for (std::int64_t size : sizes) {
      name.low = mix(name.low ^ static_cast<std::uint64_t>(size));
      name.high = mix(name.high + name.low);
    }
    return name;
  }
  friend bool operator==(const TaskName&, const TaskName&) = default;

 private:
  friend class Tuner;
  static std::uint64_t mix(std::uint64_t x) { // the finaliser of splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  std::uint64_t low = 0, high = 0;
};

/// What a store has chosen for a task. Lives as long as its tuner.
class KILN_API Tuned {
 public:
  /// Whether the vendor's kernel is the fastest: there is no program then.
  bool isVendor() const;
  const Program& program() const;
  /// Loaded into the driver at the first call, by warmup() where there is a GPU. Throws
  /// Error(unavailable) without one.
  const Executable& executable() const;
  const std::string& schedule() const; // as CompileOptions takes it; empty: the vendor's kernel
  const std::string& source() const;   // measured, transferred, model, pinned or vendor
  const std::string& layer() const;    // pinned, project, user or system
  const std::string& key() const;      // 64 digits
  /// How many times as fast as the vendor's kernel it was measured to be; 0: not both were, or the
  /// choice is one for other run-time sizes.
  double gain() const;

  struct State; // opaque: the library's own
  explicit Tuned(std::unique_ptr<State> state);
  ~Tuned();

 private:
  friend class Tuner;
  std::unique_ptr<State> state_;
};

/// Files of the layers, in the order in which they are asked; empty: none.
struct TunerLayers {
  std::filesystem::path pinned, project, user, system;
  /// $KILN_PINNED; $KILN_STORE or .kiln/store; kiln/store in the user's cache folder; what was
  /// installed beside the library.
  KILN_API static TunerLayers standard();
};

struct TunerProgress {
  std::size_t done = 0, total = 0;
  std::string label;
};

struct TunerOptions {
  /// `offline`: what the stores hold, nothing is compiled or timed; where they hold nothing for the
  /// very run-time sizes, what was tuned for the nearest, from half to twice each. `blocking`:
  /// find() and warmup() make what no store has, and return when it is there. `background`: they
  /// return a miss at once; a thread makes it, and later lookups hit. What is made is kept in the
  /// project's layer, or else the user's.
  enum class Mode { offline, blocking, background } mode = Mode::offline;
  bool strict = false;   // a miss is an Error(missing)
  bool snapshot = false; // offline: what others write to the stores later is not seen
  /// Of what is made: "none" compiles the cost model's choice; "quick", "full" and "exhaustive"
  /// also measure (kiln/tune.h), if there is a GPU and `worker` says by which program.
  std::string effort = "none";
  std::vector<std::string> worker = {};
  double budget = 0; // seconds for all that is made; 0: without limit
  TunerLayers layers = TunerLayers::standard();
  std::function<void(const TunerProgress&)> onProgress = {};
  /// What is damaged or left out; empty: a line on the standard error.
  std::function<void(const std::string&)> onWarning = {};
};

/// What the stores hold, for ranks to compare.
struct TunerChoices {
  std::string compiler;  // Kiln's version, with a digest of its sources, and NVRTC's
  std::size_t count = 0; // measured, pinned, or left to the vendor, for this version of Kiln
  std::string sha256;    // of them
};

struct TunerStats {
  std::size_t made = 0, waiting = 0;  // tasks that no store had: compiled or tuned; still to be
  std::size_t refused = 0;            // that could not be made: explain() says why
  double seconds = 0;                 // that making took
  std::uint64_t hits = 0, misses = 0; // lookups, by what they found
  std::size_t tuned = 0, missing = 0; // tasks
  std::map<std::string, std::size_t>
      missingByField; // first field that differs from the nearest key
};

/// A handle, empty until it is assigned what open() gives: it finds nothing then, and all else is
/// an Error(input). Copies share one tuner, whose last copy stops and awaits what is being made.
/// Any thread may call anything; callbacks come from the thread that makes.
class KILN_API Tuner {
 public:
  static Tuner open(const TunerOptions& options = {});

  TaskName name(const TuningTask& task) const;
  /// Null: unknown, or no store has it. No lock, no allocation, no file, no driver call: safe
  /// inside graph capture.
  const Tuned* lookup(const TaskName& name) const noexcept;
  /// The same for a task that may be new: asks the stores, and makes it as the mode says. Not
  /// inside graph capture.
  const Tuned* find(const TuningTask& task) const;
  /// Finds all, loads their kernels if there is a GPU, and publishes them at once; how many there
  /// are.
  std::size_t warmup(std::span<const TuningTask> tasks) const;
  /// From here on nothing changes: nothing is made any more, what is not known stays a miss. The
  /// SHA-256 of all that is chosen, for ranks to compare.
  std::string freeze() const;
  /// Of all that the stores hold now, whether it was asked for or not, by whatever layer has it.
  TunerChoices choices() const;

  /// Writes what was looked up and not found, or found as the cost model chose it, with how often,
  /// as a workload file and the .mlir files that it names, beside it.
  void recordShapes(const std::filesystem::path& workload) const;
  /// What is chosen for a task and from where, or why nothing is, as text for people.
  std::string explain(const TuningTask& task) const;
  TunerStats stats() const;

 private:
  static TaskName nameOf(std::string_view digest, std::span<const std::int64_t> sizes);
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

} // namespace kiln
