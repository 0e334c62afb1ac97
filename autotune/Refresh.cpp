// kiln::cache::refresh: choices of other versions of Kiln or NVRTC, whose code is compiled again.
// Where the same cubin comes out, what was measured of it holds; a cubin knows nothing of who made
// it.
#include "autotune/Carried.h"
#include "autotune/measure/GpuDevice.h"
#include "codegen/backend/Fail.h"
#include "kiln/cache.h"

#include <algorithm>

namespace kiln {

using namespace autotune;

namespace {

using State = cache::Refreshed::State;

/// The artifact if it is the cubin of old.
std::optional<Artifact> sameCode(const Module& module, CompileOptions options,
                                 const std::string& schedule, const std::string& cubin) {
  options.schedule = schedule;
  Artifact artifact = artifactOf(Program::compile(module, options));
  return artifact.sha256 == cubin ? std::optional(std::move(artifact)) : std::nullopt;
}

/// Whether the key has a choice that this one must not replace.
bool isSettled(const Store& store, const Key& key) {
  const auto choice = store.choice(key);
  return choice && choice->source != Source::model;
}

/// Throws Error for what this Kiln does not compile.
State refreshKey(Store& store, const KnownKey& known, const std::filesystem::path& nvrtc) {
  std::optional<Task> task = store.task(known.key);
  if (!task)
    return State::stale; // how it is run was not kept
  CompileOptions options;
  options.arch = known.key.arch;
  options.nvrtc = nvrtc;
  const Module module = Module::parse(task->module);
  const Described described = describe(module, options, task->sizes);
  const Key key = measuredAs(described.key, known.key);
  if (key == known.key || isSettled(store, key))
    return State::current;
  const History history = store.history(known.key);
  if (history.choice->source == Source::model)
    return State::stale; // nothing was learned
  std::vector<std::string> same;
  for (const auto& [schedule, cubin] : schedulesToCarry(history))
    if (auto artifact = sameCode(module, options, schedule, cubin)) {
      store.keep(key, schedule, *artifact);
      same.push_back(schedule);
    } else if (schedule == history.choice->schedule) {
      return State::stale;
    }
  store.describe(key, known.label, described.text);
  store.keepTask(key, *task);
  store.carry(known.key, key, same);
  return State::carried;
}

State refreshOrStale(Store& store, const KnownKey& known, const std::filesystem::path& nvrtc) {
  try {
    return refreshKey(store, known, nvrtc);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input || error.kind() == ErrorKind::infeasible)
      return State::stale; // this Kiln refuses what another accepted
    throw;
  }
}

} // namespace

std::vector<cache::Refreshed>
cache::refresh(const std::filesystem::path& path, const std::filesystem::path& nvrtc,
               const std::function<void(std::size_t, std::size_t)>& progress) {
  Store::open(path, Store::Access::read); // is not made for this
  auto store = Store::open(path, Store::Access::write);
  const std::vector<KnownKey> keys = store->keys();
  std::vector<Refreshed> results;
  for (const KnownKey& known : keys) {
    results.push_back({known.digest, known.label, refreshOrStale(*store, known, nvrtc)});
    if (progress)
      progress(results.size(), keys.size());
  }
  const auto carried = std::ranges::count(results, State::carried, &Refreshed::state);
  if (carried > 0)
    store->note(
        fmt::format("{} choices of other versions were taken over: the same code", carried));
  return results;
}

} // namespace kiln
