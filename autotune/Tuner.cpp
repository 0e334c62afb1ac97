// kiln::Tuner. What is known lies in an immutable table that readers reach through one atomic
// pointer; writers publish a new table and keep the old ones until the end, since nobody knows who
// still reads them.
#include "kiln/tuner.h"

#include "autotune/Key.h"
#include "autotune/report/Explain.h"
#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "kiln/files.h"
#include "kiln/workload.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdio>
#include <deque>
#include <fmt/ranges.h>

namespace kiln {

using namespace autotune;

struct Tuned::State {
  std::string source, layer, key, cubin;
  std::optional<Program> program;
  mutable std::once_flag loaded;
  mutable std::optional<Executable> executable;
};

Tuned::Tuned(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tuned::~Tuned() = default;

bool Tuned::isVendor() const {
  return !state_->program;
}
const Program& Tuned::program() const {
  if (isVendor())
    fail(ErrorKind::input,
         "the vendor's kernel was chosen for key {}: there is no program of Kiln; "
         "ask isVendor() first",
         state_->key.substr(0, 12));
  return *state_->program;
}
const Executable& Tuned::executable() const {
  std::call_once(state_->loaded, [&] { state_->executable.emplace(program()); });
  return *state_->executable;
}
const std::string& Tuned::source() const {
  return state_->source;
}
const std::string& Tuned::layer() const {
  return state_->layer;
}
const std::string& Tuned::key() const {
  return state_->key;
}

namespace {

/// One task: what is known of it, and how often it was asked for.
struct Known {
  TaskName name;
  TuningTask task;
  std::unique_ptr<Tuned> tuned; // null: a miss
  Miss miss;
  mutable std::atomic<std::uint64_t> calls = 0;
};

/// Open addressing, at most half full.
struct Table {
  struct Slot {
    TaskName name;
    const Known* known = nullptr;
  };
  std::vector<Slot> slots = std::vector<Slot>(16);
};

} // namespace

struct Tuner::State {
  TunerOptions options;
  std::vector<std::string> warnings;
  std::optional<Layers> layers;

  std::mutex mutex; // of all that follows, for writers
  std::deque<Known> known;
  std::deque<Table> tables;
  std::atomic<const Table*> table;
  std::atomic<std::uint64_t> strangers = 0; // lookups of names that are not in the table
  bool frozen = false;

  void warn(const std::string& text) const {
    if (options.onWarning)
      options.onWarning(text);
    else
      fmt::print(stderr, "kiln: {}\n", text);
  }

  static std::size_t slotOf(const TaskName& name, std::size_t slots) {
    return std::bit_cast<std::array<std::uint64_t, 2>>(name)[0] & (slots - 1);
  }
  const Known* at(const TaskName& name) const noexcept {
    const Table& now = *table.load(std::memory_order_acquire);
    for (std::size_t i = slotOf(name, now.slots.size());; i = (i + 1) & (now.slots.size() - 1)) {
      const Table::Slot& slot = now.slots[i];
      if (!slot.known || slot.name == name)
        return slot.known;
    }
  }
  void publish() {
    Table& next = tables.emplace_back();
    next.slots.resize(std::max<std::size_t>(16, std::bit_ceil(known.size() * 2)));
    for (const Known& one : known) {
      std::size_t i = slotOf(one.name, next.slots.size());
      while (next.slots[i].known)
        i = (i + 1) & (next.slots.size() - 1);
      next.slots[i] = {one.name, &one};
    }
    table.store(&next, std::memory_order_release);
  }

  /// The first layer's choice that can be used; what is damaged is said and passed over.
  std::unique_ptr<Tuned> load(const Key& key) const {
    for (const Found& found : layers->find(key, /*anyCompiler=*/true)) {
      auto state = std::make_unique<Tuned::State>();
      state->source = nameIn(sourceNames, found.choice.source);
      state->layer = found.layer;
      state->key = digest(found.key);
      state->cubin = found.choice.cubin;
      if (found.choice.source == Source::vendor)
        return std::make_unique<Tuned>(std::move(state));
      try {
        auto artifact = found.store->artifact(found.key, found.choice.cubin);
        if (!artifact)
          continue; // a schedule that nobody has compiled yet
        state->program = Program::load(artifact->plan, artifact->cubin);
        return std::make_unique<Tuned>(std::move(state));
      } catch (const Error& error) {
        warn(fmt::format("the {} layer's choice is passed over: {}", found.layer, error.what()));
      }
    }
    return nullptr;
  }

  /// Adds a task that is not known yet, without publishing it. Holds the mutex.
  const Known& add(const TaskName& name, const TuningTask& task, const Key& key) {
    Known& one = known.emplace_back();
    one.name = name;
    one.task = task;
    if (!frozen)
      one.tuned = load(key);
    if (!one.tuned)
      one.miss = layers->explainMiss(key);
    return one;
  }
  const Known* find(const TaskName& name) const {
    for (const Known& one : known)
      if (one.name == name)
        return &one;
    return nullptr;
  }
};

Tuner Tuner::open(const TunerOptions& options) {
  Tuner tuner;
  tuner.state_ = std::make_shared<State>();
  State& state = *tuner.state_;
  state.options = options;
  state.layers.emplace(options.layers, /*writable=*/false, state.warnings);
  for (const std::string& warning : state.warnings)
    state.warn(warning);
  state.publish();
  return tuner;
}

/// From the digest of a key whose sizes are open.
TaskName Tuner::nameOf(std::string_view digest, std::span<const std::int64_t> sizes) {
  TaskName name;
  std::from_chars(digest.data(), digest.data() + 16, name.low, 16);
  std::from_chars(digest.data() + 16, digest.data() + 32, name.high, 16);
  return name.with(sizes);
}

TaskName Tuner::name(const TuningTask& task) const {
  return nameOf(digest(describe(task.module, task.options, {}).open), task.sizes);
}

const Tuned* Tuner::lookup(const TaskName& name) const noexcept {
  const Known* known = state_->at(name);
  if (!known) {
    state_->strangers.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  known->calls.fetch_add(1, std::memory_order_relaxed);
  return known->tuned.get();
}

const Tuned* Tuner::find(const TuningTask& task) const {
  Described described = describe(task.module, task.options, task.sizes);
  TaskName taskName = nameOf(digest(described.open), task.sizes);
  const Known* known = state_->at(taskName);
  if (!known) {
    std::lock_guard held(state_->mutex);
    known = state_->find(taskName);
    if (!known) {
      known = &state_->add(taskName, task, described.key);
      state_->publish();
    }
  }
  known->calls.fetch_add(1, std::memory_order_relaxed);
  if (!known->tuned && state_->options.strict)
    fail(ErrorKind::missing, "nothing is stored for '{}': {}; tune it, or name a store that has it",
         task.label, toText(known->miss));
  return known->tuned.get();
}

std::size_t Tuner::warmup(std::span<const TuningTask> tasks) const {
  std::size_t done = 0, found = 0;
  const bool gpu = whyNoGpu().empty();
  std::vector<std::string> missing;
  for (const TuningTask& task : tasks) {
    Described described = describe(task.module, task.options, task.sizes);
    TaskName taskName = nameOf(digest(described.open), task.sizes);
    const Known* known = nullptr;
    {
      std::lock_guard held(state_->mutex);
      known = state_->find(taskName);
      if (!known)
        known = &state_->add(taskName, task, described.key);
    }
    if (!known->tuned)
      missing.push_back(fmt::format("'{}': {}", task.label, toText(known->miss)));
    else if (++found; gpu && !known->tuned->isVendor())
      known->tuned->executable();
    if (state_->options.onProgress)
      state_->options.onProgress({++done, tasks.size(), task.label});
  }
  {
    std::lock_guard held(state_->mutex);
    state_->publish();
  }
  if (!missing.empty() && state_->options.strict)
    fail(ErrorKind::missing,
         "nothing is stored for {} of {} tasks: {}; tune them, or name a store "
         "that has them",
         missing.size(), tasks.size(), fmt::join(missing, "; "));
  return found;
}

std::string Tuner::freeze() const {
  std::lock_guard held(state_->mutex);
  state_->frozen = true;
  std::vector<std::string> lines;
  for (const Known& one : state_->known)
    if (one.tuned)
      lines.push_back(fmt::format("{} {} {}", fmt::join(one.task.sizes, "x"), one.tuned->key(),
                                  one.tuned->state_->cubin));
  std::ranges::sort(lines);
  return sha256(fmt::format("{}", fmt::join(lines, "\n")));
}

TunerStats Tuner::stats() const {
  std::lock_guard held(state_->mutex);
  TunerStats stats;
  stats.misses = state_->strangers;
  for (const Known& one : state_->known) {
    (one.tuned ? stats.hits : stats.misses) += one.calls;
    ++(one.tuned ? stats.tuned : stats.missing);
    if (!one.tuned)
      ++stats.missingByField[one.miss.field];
  }
  return stats;
}

void Tuner::recordShapes(const std::filesystem::path& workload) const {
  std::lock_guard held(state_->mutex);
  std::uint64_t calls = 0;
  for (const Known& one : state_->known)
    calls += one.tuned ? 0 : one.calls.load();
  std::string text = "# Looked up and not found, by how often.\n";
  for (const Known& one : state_->known) {
    if (one.tuned || one.calls == 0)
      continue;
    const std::string& module = one.task.module.text();
    std::string file = "shape_" + sha256(module).substr(0, 12) + ".mlir";
    writeFile(workload.parent_path() / file, module);
    text += fmt::format(
        "{}  {}  -  {:.6f}%  {}{}  # {}\n", file,
        one.task.sizes.empty() ? "-" : shapeText(one.task.sizes),
        100.0 * double(one.calls) / double(calls),
        one.task.options.backward ? "backward" : "forward",
        one.task.options.function.empty() ? "" : ",function=" + one.task.options.function,
        one.task.label);
  }
  writeFile(workload, text);
}

std::string Tuner::explain(const TuningTask& task) const {
  Described described = describe(task.module, task.options, task.sizes);
  return toText(
      cache::explainKey(*state_->layers, described.key, task.label,
                        Task{described.text, described.key.arch, "", task.sizes, "", {}}));
}

} // namespace kiln
