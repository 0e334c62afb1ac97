// kernel-compile run: executes on the host or on a GPU, compares with fp64, and measures.
#include "kiln/files.h"
#include "kiln/verify.h"
#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kiln::tool {

namespace {

struct RunRequest : Request {
  std::string target = "host";
  std::uint64_t seed = 1;
  std::vector<std::string> inputs;
  std::string outputs;
  std::string reference;
  bool time = false;
};

struct Ran {
  Verification verification;
  std::optional<Measurement> measurement;
};

RunOptions optionsOf(const RunRequest& request, const Job& job) {
  RunOptions options;
  options.where = request.target == "gpu" ? Where::gpu : Where::host;
  options.seed = request.seed;
  options.sizes = job.sizes;
  for (const std::string& path : request.inputs)
    options.inputs.push_back(readNpy(path));
  if (!request.reference.empty())
    options.reference = Module::parse(readFile(request.reference), request.reference);
  return options;
}

void saveOutputs(const std::filesystem::path& folder, const Verification& verification) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorKind::io, fmt::format("cannot create the folder '{}': {}", folder.string(),
                                           failure.message()));
  std::set<std::string> taken;
  for (std::size_t i = 0; i < verification.results.size(); ++i) {
    std::string name = fileName(verification.outputs[i].name);
    if (!taken.insert(name).second) // another name that had to be changed
      taken.insert(name += fmt::format("_{}", i));
    writeNpy(folder / (name + ".npy"), verification.results[i]);
  }
}

std::string whyFailed(const Verification& verification) {
  std::vector<std::string> reasons = verification.problems;
  for (const OutputCheck& output : verification.outputs)
    if (!output.passed)
      reasons.push_back(fmt::format("{}[{}] is {:.9g}, fp64 says {:.9g}, allowed error {:.3g}",
                                    output.name, fmt::join(output.worst, ","), output.result,
                                    output.reference, output.allowed));
  return reasons.empty() ? "verification failed" : fmt::format("{}", fmt::join(reasons, "; "));
}

Table verificationTable(bool several) {
  Table table;
  if (several)
    table.column("job", Table::Align::left);
  for (const char* title : {"output", "dtype", "shape"})
    table.column(title, Table::Align::left);
  for (const char* title : {"max error", "error at worst", "allowed there"})
    table.column(title);
  table.column("against fp64", Table::Align::left);
  return table;
}

/// NaN beside NaN agrees too, and says little.
std::string verdictOf(const OutputCheck& output) {
  const bool isEmpty = std::ranges::find(output.shape, 0) != output.shape.end();
  return !output.passed                    ? "WRONG"
         : output.numbers == 0 && !isEmpty ? "agrees: no element is a number"
                                           : "agrees";
}

std::string textOf(const JobList& list, const std::vector<std::optional<Ran>>& ran) {
  bool several = list.jobs.size() > 1;
  Table checks = verificationTable(several);
  Table times;
  times.column("job", Table::Align::left);
  for (const char* title : {"us", "5..95 %", "copy us", "of copy", "MB"})
    times.column(title);
  std::string device;
  for (std::size_t i = 0; i < ran.size(); ++i) {
    if (!ran[i])
      continue;
    for (const OutputCheck& output : ran[i]->verification.outputs) {
      std::vector<std::string> cells = {
          output.name,
          std::string(name(output.dtype)),
          shapeText(output.shape),
          fmt::format("{:.2e}", output.maxError),
          fmt::format("{:.2e}", std::abs(output.result - output.reference)),
          fmt::format("{:.2e}", output.allowed),
          verdictOf(output)};
      if (several)
        cells.insert(cells.begin(), list.jobs[i].label);
      checks.row(std::move(cells));
    }
    if (const auto& m = ran[i]->measurement) {
      device = m->device;
      times.row({list.jobs[i].label, fmt::format("{:.2f}", m->microseconds),
                 fmt::format("{:.2f}..{:.2f}", m->lowest, m->highest),
                 fmt::format("{:.2f}", m->copyMicroseconds),
                 fmt::format("{:.2f}x", m->microseconds / m->copyMicroseconds),
                 fmt::format("{:.1f}", static_cast<double>(m->bytes) / 1e6)});
    }
  }
  std::string out = checks.empty() ? "" : checks.text();
  for (std::size_t i = 0; i < ran.size(); ++i)
    if (ran[i] && ran[i]->verification.step > 1)
      out += fmt::format("{}: a row of {} was compared, since fp64 would take minutes for all\n",
                         list.jobs[i].label, ran[i]->verification.step);
  if (!times.empty())
    out += fmt::format("\n{}; cold inputs and outputs, graph replay, beside a copy of as many "
                       "bytes\n{}",
                       device, times.text());
  return out;
}

nlohmann::ordered_json jsonOf(const Ran& ran) {
  nlohmann::ordered_json json = {{"passed", ran.verification.passed},
                                 {"repeatable", ran.verification.repeatable},
                                 {"problems", ran.verification.problems},
                                 {"compared_row_of", ran.verification.step},
                                 {"outputs", nlohmann::ordered_json::array()}};
  for (const OutputCheck& output : ran.verification.outputs)
    json["outputs"].push_back({{"name", output.name},
                               {"dtype", name(output.dtype)},
                               {"shape", output.shape},
                               {"max_error", output.maxError},
                               {"worst", output.worst},
                               {"result", output.result},
                               {"reference", output.reference},
                               {"allowed", output.allowed},
                               {"passed", output.passed}});
  if (const auto& m = ran.measurement)
    json["measurement"] = {
        {"device", m->device},   {"microseconds", m->microseconds},          {"lowest", m->lowest},
        {"highest", m->highest}, {"copy_microseconds", m->copyMicroseconds}, {"bytes", m->bytes},
        {"replays", m->replays}};
  return json;
}

Ran runOne(const RunRequest& request, const Job& job) {
  Program program = job.program();
  RunOptions options = optionsOf(request, job);
  Ran ran = {verify(program, options), std::nullopt};
  if (!request.outputs.empty())
    saveOutputs(request.workload.empty() ? std::filesystem::path(request.outputs)
                                         : std::filesystem::path(request.outputs) / job.stem,
                ran.verification);
  if (request.time && ran.verification.passed) // a wrong kernel is never timed
    ran.measurement = measure(program, options);
  return ran;
}

int runJobsOf(const RunRequest& request) {
  if (request.time && request.target != "gpu")
    throw CLI::ValidationError("--time", "needs --target=gpu: times of the host mean nothing");
  JobList list = jobsOf(request);
  // Only the host target does not go beyond the CUDA text, so that it needs no NVRTC.
  for (Job& job : list.jobs)
    job.options.until = request.target == "gpu" ? Stage::cubin : Stage::cuda;
  std::vector<std::optional<Ran>> ran(list.jobs.size());
  unsigned threads = request.target == "gpu" ? 1 : request.jobs; // times must not disturb others
  auto failures = runJobs(list.jobs, threads, request.json, [&](std::size_t i) {
    ran[i] = runOne(request, list.jobs[i]);
    if (!ran[i]->verification.passed)
      throw Error(ErrorKind::verification, whyFailed(ran[i]->verification));
  });

  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < ran.size(); ++i) {
    nlohmann::ordered_json job = {{"label", list.jobs[i].label}};
    if (ran[i])
      job.update(jsonOf(*ran[i]));
    if (failures[i])
      job["error"] = toJson(*failures[i]);
    jobs.push_back(std::move(job));
  }
  nlohmann::ordered_json json = {
      {"version", version()}, {"target", request.target}, {"jobs", jobs}, {"errors", list.errors}};
  request.json ? printJson(json) : print(textOf(list, ran));
  return report(list.jobs, failures, list.errors);
}

} // namespace

void addRun(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<RunRequest>();
  CLI::App* verb = app.add_subcommand("run", "execute, compare with fp64, measure");
  addSourceOptions(*verb, *request, true);
  verb->add_option("--target", request->target, "where it runs (the host needs no GPU)")
      ->type_name("WHERE")
      ->check(OneOf({"host", "gpu"}))
      ->capture_default_str();
  addSizes(*verb, *request);
  verb->add_option("--seed", request->seed, "of the inputs")->type_name("N")->capture_default_str();
  verb->add_option("--input", request->inputs, ".npy file of an argument, once each, in order")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verb->add_option("--outputs", request->outputs, "write the results into this folder, as .npy")
      ->type_name("FOLDER");
  verb->add_option("--reference", request->reference,
                   ".mlir file to compare with, if --from starts behind it")
      ->type_name("FILE");
  verb->add_flag("--time", request->time, "measure beside a plain copy (--target=gpu)");
  verb->footer("Example:\n"
               "  kernel-compile run masked_softmax.mlir --target=host --sizes=1000\n"
               "  kernel-compile run --workload=alphafold_layernorm.txt --target=gpu --time");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = runJobsOf(*request);
  });
}

} // namespace kiln::tool
