// kernel-compile tune: finds the fastest schedules on a GPU and keeps them in a store. Also the
// hidden verb `worker`, the process in which candidates run.
#include "kiln/tune.h"
#include "kiln/tuner.h"

#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Progress.h"
#include "tools/kernel-compile/Recheck.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

struct TuneRequest : Request {
  std::string store;
  std::string budget, keyBudget;
  bool verbose = false;
  TuneOptions options;
};

std::atomic<int> interrupted = 0; // by which signal

void interrupt(int signal) {
  interrupted = signal;
  std::signal(signal, SIG_DFL); // a second one ends at once; the store stays whole
}

/// "90", "90s", "10m", "1.5h"; empty: 0.
double secondsOf(const std::string& option, const std::string& text) {
  if (text.empty())
    return 0;
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (code != std::errc{} || !(value > 0) || factor == 0)
    throw CLI::ValidationError(option, "'" + text + "' is no time, such as 90s, 10m or 1.5h");
  return value * factor;
}

std::string lineOf(const TuneProgress& p) {
  std::string line = fmt::format("{}/{} keys, {} compiled, {} measured, {} rejected, {} failed",
                                 p.keysDone, p.keys, p.compiled, p.measured, p.rejected, p.failed);
  if (p.best > 0)
    line += fmt::format("; {}: {:.2f} us, {:.0f}% of roofline", p.label, p.best,
                        100 * p.roofline / p.best);
  return line;
}

/// An op's leading sizes may be known at run time only: the same kernel on fewer rows.
TuneTask taskOf(const Job& job) {
  TuneTask task{{job.module(), job.options, job.sizes, job.label}, 1, std::nullopt, {}};
  if (job.share > 0)
    task.share = job.share;
  if (job.text)
    return task;
  OpenedOp opened = Module::opened(job.op);
  if (opened.sizes.empty() || std::ranges::count(opened.sizes, -1) > 0)
    return task;
  task.generalSizes = std::move(opened.sizes);
  task.general = Module::fromOp(opened.spec);
  return task;
}

/// Where the time of each key went.
Table timesOf(const std::vector<TuneResult>& results) {
  Table table;
  table.column("job", Table::Align::left);
  for (const char* title : {"tried", "seconds", "compile", "verify", "measure", "rest"})
    table.column(title);
  TuneResult all;
  auto row = [&](const TuneResult& r) {
    const double rest = r.seconds - r.compileSeconds - r.verifySeconds - r.measureSeconds;
    std::vector<std::string> cells{r.label, fmt::format("{}", r.measured)};
    for (double part : {r.seconds, r.compileSeconds, r.verifySeconds, r.measureSeconds, rest})
      cells.push_back(fmt::format("{:.2f}", part));
    table.row(cells);
  };
  for (const TuneResult& r : results) {
    row(r);
    all.measured += r.measured;
    all.seconds += r.seconds;
    all.compileSeconds += r.compileSeconds;
    all.verifySeconds += r.verifySeconds;
    all.measureSeconds += r.measureSeconds;
  }
  all.label = "all";
  row(all);
  return table;
}

Table tableOf(const std::vector<TuneResult>& results) {
  Table table;
  table.column("job", Table::Align::left);
  for (const char* title : {"us", "roofline", "of default", "95 %", "margin", "tried"})
    table.column(title);
  for (const char* title : {"chosen", "why"})
    table.column(title, Table::Align::left);
  for (const TuneResult& r : results) {
    const bool timed = r.microseconds > 0;
    const bool compared = timed && r.source == "measured";
    table.row({r.label, timed ? fmt::format("{:.2f}", r.microseconds) : "-",
               timed ? fmt::format("{:.0f}%", 100 * r.roofline / r.microseconds) : "-",
               compared ? fmt::format("{:.3f}", r.ratio) : "-",
               compared ? fmt::format("{:.3f}..{:.3f}", r.ratioLow, r.ratioHigh) : "-",
               compared ? fmt::format("{:.1f}%", 100 * r.margin) : "-",
               fmt::format("{} of {}", r.measured, grouped(static_cast<long long>(r.feasible))),
               r.source.empty()     ? "nothing"
               : r.schedule.empty() ? r.source
                                    : shortSchedule(r.schedule),
               (r.known ? "known: " : "") + r.reason});
  }
  return table;
}

nlohmann::ordered_json jsonOf(const TuneResult& r) {
  return {{"label", r.label},
          {"key", r.key},
          {"source", r.source},
          {"schedule", r.schedule},
          {"reason", r.reason},
          {"known", r.known},
          {"general", r.general},
          {"microseconds", r.microseconds},
          {"default_microseconds", r.defaultMicroseconds},
          {"roofline_microseconds", r.roofline},
          {"ratio", r.ratio},
          {"ratio_low", r.ratioLow},
          {"ratio_high", r.ratioHigh},
          {"margin", r.margin},
          {"feasible", r.feasible},
          {"measured", r.measured},
          {"seconds", r.seconds},
          {"compile_seconds", r.compileSeconds},
          {"verify_seconds", r.verifySeconds},
          {"measure_seconds", r.measureSeconds}};
}

/// 3: a kernel got no choice although there was time. Stopped by a signal: what a shell says of it.
int exitCodeOf(const std::vector<TuneResult>& results, int signal) {
  constexpr int infeasible = 3, signalled = 128;
  if (signal != 0)
    return signalled + signal;
  bool all = std::ranges::all_of(results, [](const TuneResult& r) { return !r.source.empty(); });
  return all ? 0 : infeasible;
}

int tuneJobs(TuneRequest& request) {
  if (!request.from.empty() || !request.schedule.empty() || !request.saveTemps.empty())
    throw CLI::ValidationError("tune", "goes without --from, --schedule and --save-temps");
  TuneOptions& options = request.options;
  options.seconds = secondsOf("--budget", request.budget);
  options.secondsPerKey = secondsOf("--budget-per-key", request.keyBudget);
  options.jobs = request.jobs;
  options.worker = {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
  options.isStopped = [] { return interrupted.load() != 0; };
  std::filesystem::path store = request.store;
  if (store.empty())
    store = TunerLayers::standard().project;

  JobList list = jobsOf(request);
  std::vector<TuneTask> tasks;
  for (const Job& job : list.jobs)
    tasks.push_back(taskOf(job));
  std::vector<std::string> warnings;
  std::vector<TuneResult> results;
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, interrupt);
  {
    StatusLine status(!request.json);
    options.progress = [&, done = std::size_t(0)](const TuneProgress& progress) mutable {
      status.show(lineOf(progress), progress.secondsLeft);
      if (request.verbose && !status.isShown() && progress.keysDone > done) // a log: a line a key
        advise(lineOf(progress) + timesText(status.elapsed(), progress.secondsLeft));
      done = progress.keysDone;
    };
    results = tune(tasks, store, options, &warnings);
  }
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, SIG_DFL);
  for (const std::string& warning : warnings)
    warn(warning);

  if (request.json) {
    nlohmann::ordered_json json = {{"version", version()},
                                   {"device", options.device},
                                   {"store", store.string()},
                                   {"stopped", interrupted.load() != 0},
                                   {"jobs", nlohmann::ordered_json::array()},
                                   {"errors", list.errors}};
    for (const TuneResult& result : results)
      json["jobs"].push_back(jsonOf(result));
    printJson(json);
  } else {
    if (request.verbose)
      print(timesOf(results).text() + "\n");
    print(tableOf(results).text() + "in " + store.string() +
          (interrupted != 0 ? "; stopped, the same command goes on\n" : "\n"));
  }
  for (const std::string& error : list.errors)
    complain(error);
  return list.errors.empty() ? exitCodeOf(results, interrupted) : 1;
}

} // namespace

void addTune(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<TuneRequest>();
  CLI::App* verb = app.add_subcommand("tune", "find the fastest schedules, keep them in a store");
  addSourceOptions(*verb, *request, true);
  TuneOptions& options = request->options;
  addSizes(*verb, *request);
  verb->add_option("--store", request->store,
                   "file that keeps what is learned; else $KILN_STORE or .kiln/store")
      ->type_name("FILE");
  verb->add_option("--effort", options.effort, "of the search (none: the cost model's choice)")
      ->type_name("HOW")
      ->check(OneOf({"none", "quick", "full", "exhaustive"}))
      ->capture_default_str();
  verb->add_option("--budget", request->budget, "time for all, such as 10m")->type_name("TIME");
  verb->add_option("--budget-per-key", request->keyBudget, "time for each, such as 20s")
      ->type_name("TIME");
  addDevice(*verb, options.device);
  verb->add_flag("--again", options.again, "also what has a measured choice");
  verb->add_flag("--retry-failed", options.retryFailed, "also candidates that failed before");
  verb->add_flag("-v,--verbose", request->verbose,
                 "also where the time of each key went; without a terminal a line as each ends");
  verb->footer("Example:\n"
               "  kernel-compile tune --workload=alphafold_layernorm.txt --store=tuned.db "
               "--budget=5m\n"
               "  kernel-compile tune --op=softmax --shape=8192x10000 --dtype=bf16 --effort=quick");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = tuneJobs(*request);
  });

  auto device = std::make_shared<std::string>();
  CLI::App* worker = app.add_subcommand("worker")->group(""); // for `tune` alone
  worker->add_option("DEVICE", *device)->required();
  worker->callback([device, &outcome] { outcome.code = serveTuning(*device); });
}

} // namespace kiln::tool
