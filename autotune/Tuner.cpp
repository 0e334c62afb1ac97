// kiln::Tuner: the public side; see TunerState.h.
#include "autotune/TunerState.h"

#include "autotune/report/Explain.h"
#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "kiln/files.h"
#include "kiln/workload.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>

namespace kiln {

using namespace autotune;

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
const std::string& Tuned::schedule() const {
  return state_->schedule;
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
double Tuned::gain() const {
  return state_->gain;
}

Tuner Tuner::open(const TunerOptions& options) {
  Tuner tuner;
  tuner.state_ = std::make_shared<State>(options);
  return tuner;
}

Tuner::State& Tuner::state() const {
  return held(state_, "Tuner", "Tuner::open");
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
  if (!state_)
    return nullptr;
  const Known* known = state_->at(name);
  if (!known) {
    state_->strangers.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  known->calls.fetch_add(1, std::memory_order_relaxed);
  return known->tuned.load(std::memory_order_acquire);
}

const Tuned* Tuner::find(const TuningTask& task) const {
  Described described = describe(task.module, task.options, task.sizes);
  Known* known = nullptr;
  {
    std::lock_guard held(state().mutex);
    const std::size_t before = state().known.size();
    known = &state().learn(nameOf(digest(described.open), task.sizes), task, described);
    if (state().known.size() > before)
      state().publish();
  }
  state().provide(*known);
  known->calls.fetch_add(1, std::memory_order_relaxed);
  const Tuned* tuned = known->tuned.load(std::memory_order_acquire);
  if (!tuned && state().options.strict)
    fail(ErrorKind::missing, "nothing is stored for '{}': {}; tune it, or name a store that has it",
         task.label, state().whyMissing(*known));
  return tuned;
}

std::size_t Tuner::warmup(std::span<const TuningTask> tasks) const {
  std::size_t done = 0, found = 0;
  const bool gpu = whyNoGpu().empty();
  std::vector<std::string> missing;
  for (const TuningTask& task : tasks) {
    Described described = describe(task.module, task.options, task.sizes);
    Known* known = nullptr;
    {
      std::lock_guard held(state().mutex);
      known = &state().learn(nameOf(digest(described.open), task.sizes), task, described);
    }
    state().provide(*known);
    const Tuned* tuned = known->tuned.load(std::memory_order_acquire);
    if (!tuned)
      missing.push_back(fmt::format("'{}': {}", task.label, state().whyMissing(*known)));
    else if (++found; gpu && !tuned->isVendor())
      tuned->executable();
    if (state().options.onProgress)
      state().options.onProgress({++done, tasks.size(), task.label});
  }
  {
    std::lock_guard held(state().mutex);
    state().publish();
  }
  if (!missing.empty() && state().options.strict)
    fail(ErrorKind::missing,
         "nothing is stored for {} of {} tasks: {}; tune them, or name a store "
         "that has them",
         missing.size(), tasks.size(), fmt::join(missing, "; "));
  return found;
}

std::string Tuner::freeze() const {
  std::lock_guard held(state().mutex);
  state().frozen = true;
  std::vector<std::string> lines;
  for (const Known& one : state().known)
    if (const Tuned* tuned = one.tuned)
      lines.push_back(fmt::format("{} {} {}", fmt::join(one.task.sizes, "x"), tuned->key(),
                                  tuned->state_->cubin));
  std::ranges::sort(lines);
  return sha256(fmt::format("{}", fmt::join(lines, "\n")));
}

TunerChoices Tuner::choices() const {
  std::string lines;
  const auto chosen = state().layers->chosen();
  for (const auto& [key, choice] : chosen)
    lines += fmt::format("{} {} {}\n", key, choice.schedule, choice.cubin);
  const std::string nvrtc = nvrtcVersion();
  return {fmt::format("Kiln {} ({}), {}", version(), emitterHash().substr(0, 12),
                      nvrtc.empty() ? "no NVRTC" : "NVRTC " + nvrtc),
          chosen.size(), sha256(lines)};
}

TunerStats Tuner::stats() const {
  std::lock_guard held(state().mutex);
  TunerStats stats = state().made;
  stats.misses = state().strangers;
  for (const Known& one : state().known) {
    const bool tuned = one.tuned != nullptr;
    (tuned ? stats.hits : stats.misses) += one.calls;
    ++(tuned ? stats.tuned : stats.missing);
    if (!tuned)
      ++stats.missingByField[one.miss.field];
  }
  return stats;
}

void Tuner::recordShapes(const std::filesystem::path& workload) const {
  std::lock_guard held(state().mutex);
  std::uint64_t calls = 0;
  std::vector<const Known*> wanted;
  for (const Known& one : state().known)
    if (const Tuned* tuned = one.tuned; one.calls > 0 && (!tuned || tuned->source() == "model")) {
      wanted.push_back(&one);
      calls += one.calls;
    }
  std::string text = "# Looked up and not measured yet, by how often.\n";
  for (const Known* one : wanted) {
    const std::string& module = one->task.module.text();
    std::string file = "shape_" + sha256(module).substr(0, 12) + ".mlir";
    writeFile(workload.parent_path() / file, module);
    text += fmt::format(
        "{}  {}  -  {:.6f}%  {}{}  # {}\n", file,
        one->task.sizes.empty() ? "-" : shapeText(one->task.sizes),
        100.0 * double(one->calls) / double(calls),
        !one->task.options.backward   ? "forward"
        : one->task.options.readAhead ? "backward"
                                      : "backward,no_read_ahead",
        one->task.options.function.empty() ? "" : ",function=" + one->task.options.function,
        printable(one->task.label));
  }
  writeFile(workload, text);
}

std::string Tuner::explain(const TuningTask& task) const {
  Described described = describe(task.module, task.options, task.sizes);
  std::string text = toText(cache::explainKey(
      *state().layers, described.key, task.label,
      Task{described.text, described.key.arch, "", task.sizes, "", {}},
      state().options.mode == TunerOptions::Mode::offline ? &described : nullptr));
  std::lock_guard held(state().mutex);
  for (const Known& one : state().known)
    if (one.name == nameOf(digest(described.open), task.sizes) && !one.refused.empty())
      text += fmt::format("not made: {}\n", one.refused);
  return text;
}

} // namespace kiln
