// What stands behind kiln::Tuner. What is known lies in an immutable table that readers reach
// through one atomic pointer; writers publish a new table and keep the old ones until the end,
// since nobody knows who still reads them. A task's kernel may come later: that is an atomic
// pointer too.
#pragma once

#include "autotune/Make.h"
#include "autotune/store/Layers.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <thread>

namespace kiln {

struct Tuned::State {
  std::string schedule, source, layer, key, cubin;
  double gain = 0;
  std::optional<Program> program;
  mutable std::once_flag loaded;
  mutable std::optional<Executable> executable;
};

/// One task: what is known of it, and how often it was asked for.
struct Known {
  TaskName name;
  TuningTask task;
  std::atomic<const Tuned*> tuned = nullptr; // null: a miss
  autotune::Miss miss;
  std::string refused; // why it was not made
  mutable std::atomic<std::uint64_t> calls = 0;
};

/// Open addressing, at most half full.
struct KnownTable {
  struct Slot {
    TaskName name;
    const Known* known = nullptr;
  };
  std::vector<Slot> slots = std::vector<Slot>(16);
};

struct Tuner::State {
  using Mode = TunerOptions::Mode;

  explicit State(const TunerOptions& options);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void warn(const std::string& text) const;
  /// Without a lock: what the table has.
  const Known* at(const TaskName& name) const noexcept;

  /// Finds the task or adds it with what the stores have; not yet published.
  Known& learn(const TaskName& name, const TuningTask& task, const autotune::Described& described);
  void publish();
  /// As the mode says: at once, or later by the thread. Nothing for what is there or was refused.
  void provide(Known& known);
  std::string whyMissing(const Known& known);

  TunerOptions options;
  std::optional<autotune::Layers> layers;

  std::mutex mutex; // of all that follows, for writers
  std::deque<Known> known;
  std::vector<std::unique_ptr<Tuned>> kept;
  std::deque<KnownTable> tables;
  std::atomic<const KnownTable*> table;
  std::atomic<std::uint64_t> strangers = 0; // lookups of names that are not in the table
  bool frozen = false;
  TunerStats made; // of what was made

 private:
  std::unique_ptr<Tuned> load(const autotune::Described& described) const;
  std::unique_ptr<Tuned> transfer(const autotune::Described& described) const;
  std::unique_ptr<Tuned> load(const autotune::Found& found, autotune::Source source,
                              const std::string& text) const;
  void make(Known& known);
  std::string tryToMake(const TuningTask& task, std::unique_ptr<Tuned>& tuned);
  bool mayMeasure() const;
  bool isOver();
  bool isSpent();
  void work(const std::stop_token& stop);

  std::mutex making; // one at a time
  std::deque<Known*> queue;
  std::condition_variable_any queued;
  std::atomic<bool> stopping = false;
  std::jthread thread;
};

} // namespace kiln
