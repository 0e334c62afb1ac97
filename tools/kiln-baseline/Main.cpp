// kiln-baseline: what ATen's own kernels take on a workload, kept in a store where tuning compares
// its choices with it. Only reads options, calls libkiln_torch through its public headers and
// prints. Exit codes: 0 ok, also if ATen has none of the functions; 1 error, such as no GPU; 2
// usage.
#include "kiln/baseline.h"
#include "kiln/files.h"
#include "kiln/workload.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace {

using namespace kiln;
using nlohmann::ordered_json;

struct Request {
  std::string workload, device = "gpu";
  std::filesystem::path store;
  std::size_t rounds = 64;
  bool json = false;
};

/// A line of the workload: the task as it is tuned, and the function that routers would call.
struct Job {
  TuningTask task, routed;
};

Job jobOf(const WorkloadEntry& entry) {
  Job job;
  TuningTask& task = job.task;
  task.options = entry.options();
  const std::string stem =
      entry.isFile ? std::filesystem::path(entry.what).stem().string() : entry.what;
  task.label = fmt::format("{} {}{}{}{}{}", stem, shapeText(entry.shape),
                           entry.isFile ? "" : fmt::format(" {}", name(entry.dtype)),
                           settingsLabel(entry.settings),
                           entry.function.empty() ? "" : " " + entry.function, entry.direction());
  if (entry.isFile) {
    task.module = Module::parse(readFile(entry.what), entry.what);
    task.sizes = entry.shape;
    job.routed = task;
    return job;
  }
  task.module = Module::fromOp(entry.op());
  const OpenedOp opened = Module::opened(entry.op());
  job.routed = task;
  job.routed.sizes = opened.sizes;
  job.routed.module = Module::fromOp(opened.spec);
  return job;
}

/// A device that throttles is given some seconds.
ordered_json measured(const Job& job, const Request& request) {
  ordered_json line = {{"label", job.task.label}};
  for (int tries = 1;; ++tries) {
    const Place place = request.device == "cpu" ? Place::cpu : Place::gpu;
    const auto baseline = timeATen(job.routed, place, request.rounds);
    if (!baseline) {
      line["none"] = "ATen has no op that computes this function and that Kiln routes";
      return line;
    }
    try {
      const cache::Time time = cache::recordBaseline(
          request.store, job.task, *baseline, place == Place::cpu ? "simulated" : request.device);
      line.update({{"provider", baseline->provider},
                   {"microseconds", time.microseconds},
                   {"low", time.low},
                   {"high", time.high},
                   {"samples", baseline->microseconds.size()},
                   {"device", time.device},
                   {"driver", time.driver}});
      return line;
    } catch (const Error& error) {
      constexpr int most = 4;
      if (error.kind() != ErrorKind::device || tries == most)
        throw;
    }
    std::this_thread::sleep_for(std::chrono::seconds(tries)); // it throttles
  }
}

void print(const ordered_json& line) {
  const std::string label = printable(line["label"].get<std::string>());
  if (line.contains("provider"))
    fmt::print("{:<44} {:>10.2f} us  {:.2f}..{:.2f}  {}\n", label,
               line["microseconds"].get<double>(), line["low"].get<double>(),
               line["high"].get<double>(), line["provider"].get<std::string>());
  else
    fmt::print("{:<44} {:>13}  {}\n", label, "-",
               printable(line.value("none", line.value("error", std::string())), true));
}

std::string document(const ordered_json& json) {
  return json.dump(2, ' ', true, ordered_json::error_handler_t::replace);
}

int run(const Request& request) {
  Workload workload = parseWorkload(readFile(request.workload), request.workload);
  std::vector<std::string> errors = workload.errors, done;
  ordered_json lines = ordered_json::array();
  for (const WorkloadEntry& entry : workload.entries)
    try {
      const Job job = jobOf(entry);
      if (std::ranges::find(done, job.task.label) != done.end())
        continue; // another place of the same shape
      done.push_back(job.task.label);
      lines.push_back(measured(job, request));
      if (!request.json)
        print(lines.back());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::io)
        throw;
      errors.push_back(fmt::format("line {}: {}", entry.line, error.what()));
    }
  if (request.json)
    fmt::print("{}\n", document(ordered_json({{"version", version()},
                                              {"device", request.device},
                                              {"store", request.store.string()},
                                              {"lines", lines},
                                              {"errors", errors}})));
  for (const std::string& error : errors)
    fmt::print(stderr, "kiln-baseline: {}\n", printable(error, true));
  return errors.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times ATen's kernels on a workload, cold, and keeps the times in a store: tuning then "
      "chooses Kiln's kernels only where they are faster beyond doubt.",
      "kiln-baseline");
  app.set_version_flag("--version", std::string(version()));
  Request request;
  app.add_option("--workload", request.workload, "a workload file")->required();
  app.add_option("--store", request.store, "the store; made if it is not there")->required();
  app.add_option("--device", request.device,
                 "gpu, or cpu to try the program out: its times go to keys that no GPU has, those "
                 "of 'kernel-compile tune --device=simulated'")
      ->check(CLI::IsMember({"gpu", "cpu"}))
      ->capture_default_str();
  app.add_option("--rounds", request.rounds, "samples of each")
      ->check(CLI::Range(8, 1024))
      ->capture_default_str();
  app.add_flag("--json", request.json, "print JSON");
  app.footer("Example:\n"
             "  kiln-baseline --workload=alphafold_layernorm.txt --store=tuned.db\n"
             "  kernel-compile tune --workload=alphafold_layernorm.txt --store=tuned.db");
  try {
    app.parse(argc, argv);
    return run(request);
  } catch (const CLI::ParseError& error) {
    constexpr int usage = 2;
    return app.exit(error) == 0 ? 0 : usage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kiln-baseline: {}\n", printable(error.what(), true));
    if (request.json)
      fmt::print("{}\n", document(ordered_json({{"error", error.what()}})));
    return 1;
  }
}
