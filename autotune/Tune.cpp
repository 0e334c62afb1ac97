// kiln::tune: tasks become problems, devices live in workers, the journal is a store.
#include "kiln/tune.h"

#include "autotune/General.h"
#include "autotune/Make.h"
#include "autotune/Workers.h"
#include "autotune/search/Search.h"
#include "autotune/store/Names.h"
#include "autotune/store/Store.h"
#include "codegen/backend/Fail.h"
#include "dialect/Ranges.h"

#include <algorithm>

namespace kiln {

using namespace autotune;

namespace {

/// The function alone, or its backward.
std::string textOf(const Module& module, const CompileOptions& given) {
  return Program::compile(module, optionsUntil(Stage::module, given)).text(Stage::module);
}

/// The key of the simulated device's times must never be a real one's.
Described describeFor(const TuneTask& task, const std::string& device) {
  Described described = describe(task.module, task.options, task.sizes, model::Listing::explained);
  if (isSimulated(device))
    described.key.device = "simulated";
  return described;
}

Problem problemOf(const TuneTask& task, Described described) {
  Problem problem;
  problem.key = described.key;
  problem.label = task.label;
  problem.calls = task.share;
  if (hasOpenSizes(described.key)) {
    problem.refused = "has sizes that are known at run time only; give them values (--sizes)";
    return problem;
  }
  if (described.spaces.empty()) {
    problem.refused = "has no kernel with a schedule: there is nothing to tune";
    return problem;
  }
  if (std::ranges::all_of(described.spaces, [](const auto& space) { return space.bytes <= 0; })) {
    problem.refused = "has no rows at these sizes: there is nothing to time";
    return problem;
  }
  problem.task.module = std::move(described.text);
  problem.task.arch = task.options.arch;
  problem.task.nvrtc = task.options.nvrtc;
  problem.task.sizes = task.sizes;
  if (task.general) {
    problem.task.general = textOf(*task.general, task.options);
    problem.task.generalSizes = task.generalSizes;
  }
  problem.spaces = std::move(described.spaces);
  for (const KernelSpace& space : problem.spaces)
    problem.refusals.insert(problem.refusals.end(), space.refusals.begin(), space.refusals.end());
  for (const KernelSpace& space : problem.spaces) {
    problem.roofline += space.roofline.microseconds();
    problem.bytes += space.bytes;
  }
  return problem;
}

/// work(i) for all of `count`, on all cores, since each takes some hundredths of a second.
void forEach(std::size_t count, llvm::function_ref<void(std::size_t)> work) {
  const auto tasks = static_cast<std::int64_t>(count);
  ir::inRanges(tasks, tasks, [&](std::int64_t task, std::int64_t, std::int64_t) {
    work(static_cast<std::size_t>(task));
  });
}

std::vector<Problem> problemsOf(std::span<const TuneTask> tasks, Store& store,
                                const TuneOptions& options) {
  std::vector<Problem> problems(tasks.size());
  forEach(tasks.size(), [&](std::size_t i) {
    Described described = describeFor(tasks[i], options.device);
    store.describe(described.key, tasks[i].label, described.text);
    problems[i] = problemOf(tasks[i], std::move(described));
    if (!problems[i].task.module.empty())
      store.keepTask(problems[i].key, problems[i].task);
  });
  return problems;
}

TuneResult resultOf(const Result& found) {
  TuneResult result;
  result.label = found.label;
  result.key = digest(found.key);
  result.reason = found.reason;
  result.known = found.known;
  result.microseconds = found.microseconds;
  result.defaultMicroseconds = found.defaultMicroseconds;
  result.roofline = found.roofline;
  result.ratio = found.ratio;
  result.ratioLow = found.ratioLow;
  result.ratioHigh = found.ratioHigh;
  result.feasible = found.feasible;
  result.measured = found.measured;
  result.seconds = found.spent.whole;
  result.compileSeconds = found.spent.compile;
  result.verifySeconds = found.spent.verify;
  result.measureSeconds = found.spent.measure;
  if (found.choice) {
    result.source = nameIn(sourceNames, found.choice->source);
    result.schedule = found.choice->schedule;
    result.reason = found.choice->reason;
    result.margin = found.choice->margin;
  }
  return result;
}

SearchOptions searchOptions(const TuneOptions& given) {
  SearchOptions options;
  options.effort = parseEffort(given.effort);
  options.seconds = given.seconds;
  options.secondsPerKey = given.secondsPerKey;
  options.compilers = given.jobs;
  options.again = given.again;
  options.retryFailed = given.retryFailed;
  options.isStopped = given.isStopped;
  options.progress = given.progress;
  return options;
}

void checkDevice(const TuneOptions& options) {
  if (gpuOf(options.device) < 0 ||
      options.effort != "none") // that chooses without running anything
    requireDevice(options.device, options.worker, "; --effort=none chooses by the cost model");
}

/// What is measured must last: memory is no place for it, and a disk that takes no row now takes
/// none later.
std::unique_ptr<Store> openForTuning(const std::filesystem::path& path, std::size_t tasks,
                                     std::vector<std::string>& warnings) {
  if (path.empty())
    fail(ErrorKind::input, "tuning needs a store to write: name its file (--store=FILE, or "
                           "$KILN_STORE)");
  auto store = Store::openOrSetAside(path, warnings);
  store->note(fmt::format("tuning of {} tasks begins", tasks));
  return store;
}

} // namespace

std::vector<TuneResult> autotune::tuneInto(Store& store, std::span<const TuneTask> tasks,
                                           const TuneOptions& options) {
  checkDevice(options);
  const std::vector<Problem> problems = problemsOf(tasks, store, options);
  DeviceFactory make = workersOf(options.worker, options.device);
  std::vector<TuneResult> results;
  for (const Result& found : tune(problems, store, make, make, searchOptions(options)))
    results.push_back(resultOf(found));
  forEach(results.size(), [&](std::size_t i) {
    results[i].general =
        chooseForGeneral(store, {results[i].key, problems[i].key, results[i].label});
  });
  return results;
}

std::vector<TuneResult> tune(std::span<const TuneTask> tasks, const std::filesystem::path& path,
                             const TuneOptions& options, std::vector<std::string>* warnings) {
  checkDevice(options);
  std::vector<std::string> ignored;
  auto store = openForTuning(path, tasks.size(), warnings ? *warnings : ignored);
  return tuneInto(*store, tasks, options);
}

} // namespace kiln
