// See TunerState.h.
#include "autotune/TunerState.h"

#include "autotune/General.h"
#include "autotune/store/Names.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

namespace kiln {

using namespace autotune;

namespace {

std::size_t slotOf(const TaskName& name, std::size_t slots) {
  return std::bit_cast<std::array<std::uint64_t, 2>>(name)[0] & (slots - 1);
}

} // namespace

Tuner::State::State(const TunerOptions& given) : options(given) {
  std::vector<std::string> warnings;
  using Use = Layers::Use;
  layers.emplace(options.layers,
                 options.mode != Mode::offline ? Use::write
                 : options.snapshot            ? Use::readNow
                                               : Use::read,
                 warnings);
  for (const std::string& warning : warnings)
    warn(warning);
  if (options.mode != Mode::offline && options.snapshot)
    fail(ErrorKind::input,
         "a tuner that makes what is missing sees what it makes: open it offline, "
         "or without `snapshot`");
  if (options.mode != Mode::offline && !layers->writer())
    fail(ErrorKind::input, "a tuner that makes what is missing needs a place to keep it: name the "
                           "project's or the user's layer, or open it offline");
  publish();
  if (options.mode == Mode::background)
    thread = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Tuner::State::~State() {
  stopping = true;
}

void Tuner::State::warn(const std::string& text) const {
  if (options.onWarning)
    options.onWarning(text);
  else
    fmt::print(stderr, "kiln: {}\n", text);
}

//===- What is known ------------------------------------------------------------------------===//

const Known* Tuner::State::at(const TaskName& name) const noexcept {
  const KnownTable& now = *table.load(std::memory_order_acquire);
  for (std::size_t i = slotOf(name, now.slots.size());; i = (i + 1) & (now.slots.size() - 1)) {
    const KnownTable::Slot& slot = now.slots[i];
    if (!slot.known || slot.name == name)
      return slot.known;
  }
}

void Tuner::State::publish() {
  KnownTable& next = tables.emplace_back();
  next.slots.resize(std::max<std::size_t>(16, std::bit_ceil(known.size() * 2)));
  for (const Known& one : known) {
    std::size_t i = slotOf(one.name, next.slots.size());
    while (next.slots[i].known)
      i = (i + 1) & (next.slots.size() - 1);
    next.slots[i] = {one.name, &one};
  }
  table.store(&next, std::memory_order_release);
}

/// Null: what is damaged is said and passed over, and so is a schedule that nobody has compiled
/// yet.
std::unique_ptr<Tuned> Tuner::State::load(const Found& found, Source source,
                                          const std::string& text) const {
  auto state = std::make_unique<Tuned::State>();
  state->schedule = found.choice.schedule;
  state->source = nameIn(sourceNames, source);
  state->layer = found.layer;
  state->key = digest(found.key);
  state->cubin = found.choice.cubin;
  if (found.choice.source == Source::vendor)
    return std::make_unique<Tuned>(std::move(state));
  try {
    auto artifact = found.store->artifact(found.key, found.choice.schedule, found.choice.cubin);
    if (!artifact)
      return nullptr;
    state->program = Program::load(artifact->plan, artifact->cubin);
    if (source == Source::model)
      prove({found.key, found.choice.schedule, found.choice.cubin, *state->program, text},
            *found.store, layers->writer());
    if (source != Source::transferred)
      state->gain = found.store->gainOverVendor(found.key, found.choice.schedule);
    return std::make_unique<Tuned>(std::move(state));
  } catch (const Error& error) {
    warn(fmt::format("the {} layer's choice is passed over: {}", found.layer, error.what()));
    return nullptr;
  }
}

/// The first layer's choice that can be used.
std::unique_ptr<Tuned> Tuner::State::load(const Described& described) const {
  for (const Found& found : layers->find(described.key, /*anyCompiler=*/true))
    if (auto tuned = load(found, found.choice.source, described.text))
      return tuned;
  return nullptr;
}

/// That of near sizes, for those who never make what is missing.
std::unique_ptr<Tuned> Tuner::State::transfer(const Described& described) const {
  if (options.mode == Mode::offline)
    for (const Found& found : transferable(*layers, described))
      if (auto tuned = load(found, Source::transferred, described.text))
        return tuned;
  return nullptr;
}

Known& Tuner::State::learn(const TaskName& name, const TuningTask& task,
                           const Described& described) {
  for (Known& one : known)
    if (one.name == name)
      return one;
  Known& one = known.emplace_back();
  one.name = name;
  one.task = task;
  std::unique_ptr<Tuned> tuned = frozen ? nullptr : load(described);
  if (!tuned && !frozen)
    tuned = transfer(described);
  if (tuned) {
    one.tuned = tuned.get();
    kept.push_back(std::move(tuned));
  } else {
    one.miss = layers->explainMiss(described.key);
  }
  return one;
}

std::string Tuner::State::whyMissing(const Known& known) {
  std::lock_guard held(mutex);
  return known.refused.empty() ? toText(known.miss) : known.refused;
}

//===- Making what is missing ---------------------------------------------------------------===//

bool Tuner::State::isOver() {
  std::lock_guard held(mutex);
  return frozen || stopping;
}

bool Tuner::State::isSpent() {
  std::lock_guard held(mutex);
  return options.budget > 0 && made.seconds >= options.budget;
}

void Tuner::State::provide(Known& wanted) {
  std::unique_lock held(mutex);
  if (options.mode == Mode::offline || frozen || wanted.tuned || !wanted.refused.empty())
    return;
  if (options.mode == Mode::background) {
    if (std::ranges::find(queue, &wanted) != queue.end())
      return;
    queue.push_back(&wanted);
    ++made.waiting;
    queued.notify_one();
    return;
  }
  held.unlock();
  std::lock_guard alone(making);
  if (!wanted.tuned && !isOver()) // another thread may have been faster
    make(wanted);
}

/// What waits for the thread stays in the queue while it is made, so that it is not queued again.
void Tuner::State::work(const std::stop_token& stop) {
  std::unique_lock held(mutex);
  while (queued.wait(held, stop, [&] { return !queue.empty(); })) {
    if (stop.stop_requested())
      return;
    Known& next = *queue.front();
    if (!frozen) {
      held.unlock();
      make(next);
      held.lock();
    }
    queue.pop_front();
    --made.waiting;
  }
}

void Tuner::State::make(Known& wanted) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Tuned> tuned;
  std::string why;
  if (isSpent())
    why = fmt::format("the budget of {} s is spent", options.budget);
  else
    why = tryToMake(wanted.task, tuned);
  TunerProgress progress;
  {
    std::lock_guard held(mutex);
    made.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (frozen || (stopping && !tuned))
      return;
    if (tuned) {
      wanted.tuned.store(tuned.get(), std::memory_order_release);
      kept.push_back(std::move(tuned));
      ++made.made;
    } else {
      wanted.refused = why;
      ++made.refused;
    }
    progress = {made.made + made.refused, made.made + made.refused + queue.size(),
                wanted.task.label};
  }
  if (!why.empty())
    warn(fmt::format("'{}' is not made: {}", wanted.task.label, why));
  if (options.mode == Mode::background && options.onProgress)
    options.onProgress(progress);
}

bool Tuner::State::mayMeasure() const {
  return options.effort != "none" && !options.worker.empty() && whyNoGpu().empty();
}

/// Why not; empty: `tuned` is there.
std::string Tuner::State::tryToMake(const TuningTask& task, std::unique_ptr<Tuned>& tuned) {
  try {
    Store& store = *layers->writer();
    if (mayMeasure()) {
      TuneOptions tuning;
      tuning.effort = options.effort;
      tuning.worker = options.worker;
      tuning.isStopped = [this] { return isOver(); };
      if (options.budget > 0) {
        std::lock_guard held(mutex);
        tuning.seconds = std::max(0.001, options.budget - made.seconds);
      }
      TuneTask wanted;
      static_cast<TuningTask&>(wanted) = task;
      tuneInto(store, {&wanted, 1}, tuning);
    }
    const Described described = describe(task.module, task.options, task.sizes);
    tuned = load(described);
    if (!tuned && !isOver()) {
      compileInto(store, task, described);
      tuned = load(described);
    }
    return tuned ? "" : isOver() ? "stopped" : "what was compiled cannot be loaded";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace kiln
