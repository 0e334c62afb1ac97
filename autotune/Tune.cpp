// kiln::tune: tasks become problems, devices live in workers, the journal is a store.
#include "kiln/tune.h"

#include "autotune/Facts.h"
#include "autotune/Key.h"
#include "autotune/Workers.h"
#include "autotune/search/Search.h"
#include "autotune/store/Names.h"
#include "autotune/store/Store.h"
#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln {

using namespace autotune;

namespace {

Program fusedOf(const Module& module, const CompileOptions& given) {
  CompileOptions options = given;
  options.until = Stage::fused;
  options.schedule.clear();
  options.saveTemps.clear();
  return Program::compile(module, options);
}

/// The key of the simulated device's times must never be a real one's.
Described describeFor(const TuneTask& task, bool isSimulated) {
  Described described = describe(task.module, task.options, task.sizes);
  if (isSimulated)
    described.key.device = "simulated";
  return described;
}

Problem problemOf(const TuneTask& task, const Key& key) {
  Problem problem;
  problem.key = key;
  problem.label = task.label;
  problem.calls = task.share;
  if (key.tensors.find('?') != std::string::npos) {
    problem.refused = "has sizes that are known at run time only; give them values (--sizes)";
    return problem;
  }
  Program fused = fusedOf(task.module, task.options);
  problem.task.module = fused.text(Stage::module);
  problem.task.arch = task.options.arch;
  problem.task.nvrtc = task.options.nvrtc;
  problem.task.sizes = task.sizes;
  if (task.general) {
    problem.task.general = fusedOf(*task.general, task.options).text(Stage::module);
    problem.task.generalSizes = task.generalSizes;
  }
  auto kernels = factsOf(fused.text(Stage::fused), task.sizes);
  if (kernels.size() != 1) {
    problem.refused =
        fmt::format("has {} kernels with schedules; functions of one are tuned", kernels.size());
    return problem;
  }
  rows::Facts facts = kernels[0].facts;
  facts.rows = static_cast<std::int64_t>(kernels[0].rows);
  const Target& target = findTarget(task.options.arch);
  problem.space = enumerate(facts, target, false).feasible;
  problem.roofline = facts.bytes(kernels[0].rows) / (target.memoryGBs * 1e3);
  return problem;
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
  if (given.progress)
    options.progress = [report = given.progress](const autotune::Progress& p) {
      report({p.keys, p.keysDone, p.compiled, p.measured, p.rejected, p.failed, p.label, p.best,
              p.roofline, p.secondsLeft});
    };
  return options;
}

} // namespace

std::vector<TuneResult> tune(std::span<const TuneTask> tasks, const std::filesystem::path& path,
                             const TuneOptions& options, std::vector<std::string>* warnings) {
  if (options.device != "gpu" || options.effort != "none") // that chooses without running anything
    requireDevice(options.device, options.worker, "; --effort=none chooses by the cost model");
  std::vector<std::string> said;
  auto store = Store::openOrReplace(path, warnings ? *warnings : said);
  std::vector<Problem> problems;
  for (const TuneTask& task : tasks) {
    Described described = describeFor(task, isSimulated(options.device));
    store->describe(described.key, task.label, described.text);
    problems.push_back(problemOf(task, described.key));
    if (!problems.back().task.module.empty())
      store->keepTask(problems.back().key, problems.back().task);
  }
  DeviceFactory make = workersOf(options.worker, options.device);
  std::vector<TuneResult> results;
  for (const Result& found : tune(problems, *store, make, make, searchOptions(options)))
    results.push_back(resultOf(found));
  return results;
}

} // namespace kiln
