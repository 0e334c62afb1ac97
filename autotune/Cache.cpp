// kiln::cache and kiln::Cache: stores for people and for the command.
#include "kiln/cache.h"

#include "autotune/Make.h"
#include "autotune/Public.h"
#include "autotune/measure/GpuDevice.h"
#include "autotune/report/Limits.h"
#include "autotune/report/Rejections.h"
#include "autotune/store/FileSystem.h"
#include "autotune/store/Layers.h"
#include "autotune/store/Merge.h"
#include "autotune/store/Names.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Schedules.h"
#include "codegen/program/State.h"

#include <algorithm>

namespace kiln {

using namespace autotune;

namespace {

using Access = Store::Access;

cache::Entry entryOf(const Store& store, const KnownKey& known, const Choice& choice) {
  cache::Entry entry;
  entry.key = known.digest;
  entry.label = known.label;
  entry.arch = known.key.arch;
  entry.device = known.key.device;
  entry.tensors = known.key.tensors;
  entry.nvrtc = known.key.nvrtc;
  entry.source = nameIn(sourceNames, choice.source);
  entry.schedule = choice.schedule;
  entry.cubin = choice.cubin;
  entry.reason = choice.reason;
  entry.margin = choice.margin;
  auto held = store.lock();
  Statement bytes =
      store.database().query("SELECT bytes FROM artifact WHERE sha256 = ?", {choice.cubin});
  if (bytes.step())
    entry.cubinBytes = bytes.integer(0);
  return entry;
}

std::vector<cache::Entry> entriesOf(const Store& store, const Selection& selection) {
  std::vector<cache::Entry> entries;
  for (const KnownKey& known : store.keys()) {
    if (!selection.takes(known))
      continue;
    History history = store.history(known.key);
    if (!history.choice)
      continue; // withdrawn since
    cache::Entry entry = entryOf(store, known, *history.choice);
    for (const auto& measurement : history.measurements)
      if (!entry.cubin.empty() && measurement.cubin == entry.cubin &&
          measurement.schedule == entry.schedule)
        entry.time = timeOf(measurement);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<cache::Difference> differencesOf(const Store& store,
                                             const std::vector<Conflict>& conflicts) {
  std::vector<cache::Difference> all;
  for (const Conflict& conflict : conflicts)
    all.push_back({entryOf(store, conflict.key, conflict.first),
                   entryOf(store, conflict.key, conflict.second),
                   entryOf(store, conflict.key, conflict.kept)});
  return all;
}

Selection selectionOf(const cache::Filter& filter) {
  return {filter.archs, filter.ops};
}

} // namespace

namespace cache {

std::vector<Entry> list(const std::filesystem::path& path, const Filter& filter) {
  return entriesOf(*Store::open(path, Access::read), selectionOf(filter));
}

Details show(const std::filesystem::path& path, std::string_view key) {
  auto store = Store::open(path, Access::read);
  KnownKey known = store->keyStartingWith(key);
  History history = store->history(known.key);
  Details details;
  details.chosen = history.choice.has_value();
  details.entry = entryOf(*store, known, history.choice.value_or(Choice{}));
  if (!details.chosen)
    details.entry.source.clear();
  for (const auto& [name, value] : fields(known.key))
    details.fields.emplace_back(name, value);
  for (const auto& measurement : history.measurements)
    details.times.push_back(timeOf(measurement));
  for (const auto& measurement : history.baselines)
    details.baselines.push_back(timeOf(measurement));
  for (const Verdict& verdict : history.verdicts)
    details.verdicts.push_back(
        fmt::format("{}: {} against {}, worst error {:.3g} of what is allowed{}", verdict.schedule,
                    verdict.pass ? "passed" : "failed", verdict.reference, verdict.worstError,
                    verdict.deterministic ? "" : ", runs differ"));
  for (const autotune::Failure& failure : history.failures)
    details.failures.push_back(fmt::format("{}: {} (driver {}) {}", failure.schedule,
                                           nameIn(failureNames, failure.kind), failure.driver,
                                           failure.log));
  RejectionsByRule rejections;
  for (const auto& rejection : history.rejections)
    rejections.add(rejection);
  for (const Refusal& refusal : history.refusals)
    rejections.add(refusal.rule, refusal.schedules, refusal.worst);
  for (const kiln::Rejection& rejection : rejections.list())
    details.rejections.emplace_back(rejection.reason, rejection.count);
  return details;
}

std::string report(const std::filesystem::path& path, std::string_view format,
                   const Filter& filter) {
  const auto store = Store::open(path, Access::read);
  autotune::Report report = reportOf(*store, selectionOf(filter));
  nameLimits(report, *store);
  report.version = version();
  return render(report, format);
}

std::vector<Difference> diff(const std::filesystem::path& first,
                             const std::filesystem::path& second) {
  auto a = list(first), b = list(second);
  std::map<std::string, Difference> byKey;
  for (Entry& entry : a)
    byKey[entry.key].first = std::move(entry);
  for (Entry& entry : b)
    byKey[entry.key].second = std::move(entry);
  std::vector<Difference> all;
  for (auto& [key, pair] : byKey)
    if (!pair.first || !pair.second || pair.first->schedule != pair.second->schedule ||
        pair.first->cubin != pair.second->cubin || pair.first->source != pair.second->source)
      all.push_back(std::move(pair));
  return all;
}

std::vector<Difference> merge(std::span<const std::filesystem::path> stores,
                              const std::filesystem::path& result) {
  std::error_code ignored;
  if (std::filesystem::exists(result, ignored))
    fail(ErrorKind::io,
         "'{}' is there already; name a new file, or take one store into another "
         "with 'kernel-compile cache import'",
         result.string());
  std::vector<std::unique_ptr<Store>> sources; // all are opened before anything is written
  for (const auto& path : stores)
    sources.push_back(Store::open(path, Access::read));
  auto all = Store::inMemory();
  std::vector<Difference> differences;
  for (const auto& source : sources)
    for (Difference& difference : differencesOf(*all, autotune::merge(*all, *source)))
      differences.push_back(std::move(difference));
  auto target = Store::open(result, Access::write);
  autotune::merge(*target, *all);
  return differences;
}

std::vector<Difference> import(const std::filesystem::path& file,
                               const std::filesystem::path& path) {
  auto source = Store::open(file, Access::read);
  auto store = Store::open(path, Access::write);
  auto differences = differencesOf(*store, autotune::merge(*store, *source));
  store->note("took in " + file.string());
  return differences;
}

std::int64_t exportTo(const std::filesystem::path& path, const std::filesystem::path& file,
                      const Filter& filter) {
  auto store = Store::open(path, Access::read);
  exportChoices(*store, file, selectionOf(filter));
  return static_cast<std::int64_t>(Store::open(file, Access::immutable)->keys().size());
}

Entry pin(const std::filesystem::path& path, std::string_view key, std::string_view schedule) {
  Store::open(path, Access::read); // is not made for this
  auto store = Store::open(path, Access::write);
  KnownKey known = store->keyStartingWith(key);
  store->pin(known.key, schedule);
  return entryOf(*store, known, *store->choice(known.key));
}

void unpin(const std::filesystem::path& path, std::string_view key) {
  Store::open(path, Access::read);
  auto store = Store::open(path, Access::write);
  store->unpin(store->keyStartingWith(key).key);
}

Collected collect(const std::filesystem::path& path, bool stale) {
  Store::open(path, Access::read);
  auto store = Store::open(path, Access::write);
  auto collected = collectGarbage(*store, stale ? emitterHash() : "");
  return {collected.cubins, collected.keys, collected.bytesBefore, collected.bytesAfter};
}

std::string whoElseMayWrite(const std::filesystem::path& path) {
  return autotune::whoElseMayWrite(path);
}

std::vector<Finding> doctor(const std::filesystem::path& path) {
  using State = Finding::State;
  std::vector<Finding> findings;
  std::unique_ptr<Store> store;
  try {
    store = Store::open(path, Access::read);
  } catch (const Error& error) {
    bool gone = !std::filesystem::exists(path);
    return {{"file", gone ? State::missing : State::broken, error.what(),
             "nothing of it is used; every key is a miss"}};
  }
  findings.push_back({"file", State::found, path.string(), ""});
  bool local = liesOnLocalDisk(path);
  findings.push_back(
      {"disk", State::found,
       local ? "local; written ahead (WAL)" : "not known to be local; rollback journal",
       local ? ""
             : "slow with many writers; tune into a store of each process's own "
               "and merge them"});
  std::vector<std::string> problems = check(*store);
  for (const std::string& problem : problems)
    findings.push_back({"contents", State::broken, problem, "it is not used"});
  if (problems.empty())
    findings.push_back({"contents", State::found,
                        fmt::format("{} choices of {} keys, all cubins as their hashes say",
                                    store->keys().size(), store->keys(true).size()),
                        ""});
  std::int64_t stale = 0, unfinished = 0;
  for (const KnownKey& known : store->keys()) {
    stale += known.key.emitter != emitterHash();
    auto choice = store->choice(known.key);
    unfinished += choice && choice->cubin.empty() && choice->source != Source::vendor;
  }
  if (stale > 0)
    findings.push_back(
        {"versions", State::found, fmt::format("{} choices of other versions", stale),
         "this Kiln does not use them; 'kernel-compile cache refresh' takes over those whose "
         "code is still the same, 'cache gc --stale' drops the rest"});
  if (unfinished > 0)
    findings.push_back({"cubins", State::missing, fmt::format("{} choices without", unfinished),
                        "'kernel-compile compile --store' compiles them"});
  return findings;
}

} // namespace cache

struct Cache::State {
  std::optional<Layers> layers; // the file; before it memory, if it cannot be written
  mutable std::mutex mutex;
  std::vector<std::string> warnings;
};

Cache Cache::open(const std::filesystem::path& path, bool readOnly) {
  Cache cache;
  cache.state_ = std::make_shared<State>();
  State& state = *cache.state_;
  TunerLayers files;
  files.project = path;
  state.layers.emplace(files, readOnly ? Layers::Use::read : Layers::Use::write, state.warnings);
  if (!readOnly && !state.layers->writer())
    fail(ErrorKind::input, "{}", state.warnings.back());
  return cache;
}

Cache::State& Cache::state() const {
  return held(state_, "Cache", "Cache::open");
}

std::vector<std::string> Cache::warnings() const {
  std::lock_guard held(state().mutex);
  return state().warnings;
}

Program autotune::compileInto(Store& store, const TuningTask& task, const Described& described) {
  Program program = Program::compile(task.module, optionsUntil(Stage::cubin, task.options));
  Artifact artifact = autotune::artifactOf(program);
  const std::string schedules = schedulesOf(program.state().plan);
  store.keep(described.key, schedules, artifact);
  store.choose(described.key, {schedules, artifact.sha256, Source::model,
                               "fastest by the cost model of those that the assembler accepts", 0});
  store.describe(described.key, task.label, described.text);
  store.keepTask(described.key, {described.text, described.key.arch, "", task.sizes, "", {}});
  prove({described.key, schedules, artifact.sha256, program, described.text}, store, &store);
  return program;
}

Cache::Result Cache::compile(const TuningTask& task, bool strict) const {
  Described described = describe(task.module, task.options, task.sizes);
  const Key& key = described.key;
  for (const Found& found : state().layers->find(key)) {
    try {
      const auto artifact = found.store->artifact(key, found.choice.schedule, found.choice.cubin);
      if (!artifact)
        continue;
      Program program = Program::load(artifact->plan, artifact->cubin);
      if (found.choice.source == Source::model)
        prove({key, found.choice.schedule, found.choice.cubin, program, described.text},
              *found.store, state().layers->writer());
      return {std::move(program), false};
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::verification)
        throw;
      std::lock_guard held(state().mutex);
      state().warnings.push_back(fmt::format("{}; it is not used", error.what()));
    }
  }
  if (strict || !state().layers->writer())
    fail(ErrorKind::missing, "no compiled kernel is stored: {}; without --strict it is compiled",
         toText(state().layers->explainMiss(key)));
  return {compileInto(*state().layers->writer(), task, described), true};
}

Program Cache::compileByModel(const TuningTask& task) const {
  if (!state().layers->writer())
    fail(ErrorKind::input, "the store was opened to be read only: nothing is compiled into it");
  return compileInto(*state().layers->writer(), task,
                     describe(task.module, task.options, task.sizes));
}

} // namespace kiln
