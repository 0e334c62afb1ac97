// From options to jobs, and running jobs on threads; see Jobs.h.
#include "tools/kernel-compile/Jobs.h"

#include "kiln/files.h"
#include "tools/kernel-compile/Progress.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Words.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <thread>

namespace kiln::tool {

CompileOptions Request::compileOptions() const {
  CompileOptions options;
  options.arch = arch;
  options.function = function;
  options.backward = backward;
  options.readAhead = !noReadAhead;
  options.schedule = schedule;
  options.saveTemps = saveTemps;
  options.nvrtc = nvrtc;
  return options;
}

void addSourceOptions(CLI::App& verb, Request& request, bool several) {
  constexpr const char* what = "What to compile";
  auto* file = verb.add_option("FILE", request.file, ".mlir file, or - for the standard input");
  auto* op =
      verb.add_option("--op", request.op, "a named op")->type_name("NAME")->check(oneOfOps());
  file->excludes(op);
  verb.add_option("--shape", request.shape,
                  "its sizes, such as 65536x128; ? = at run time. Of attention, heads x queries x "
                  "width, with leading sizes before them: 8x16x4096x64")
      ->type_name("SIZES")
      ->needs(op);
  verb.add_option("--dtype", request.dtype, "its element type, by any usual name (fp32, half)")
      ->type_name("NAME")
      ->transform(oneOfDTypes())
      ->needs(op)
      ->capture_default_str();
  verb.add_option("--set", request.settings,
                  "what the shape does not say, such as causal=last,key_heads=4")
      ->type_name("NAME=VALUE")
      ->needs(op)
      ->allow_extra_args(false);
  if (several) {
    auto* workload = verb.add_option("--workload", request.workload, "a workload file: many jobs")
                         ->type_name("FILE");
    workload->excludes(op)->excludes(file);
    verb.add_option("--jobs", request.jobs, "threads; 0 = one a core")
        ->type_name("N")
        ->capture_default_str();
  }
  verb.add_option("--function", request.function, "which function of the file")->type_name("NAME");
  verb.add_flag("--backward", request.backward, "its derived backward instead");
  verb.add_flag("--no-read-ahead", request.noReadAhead,
                "a backward that reads nothing ahead of the kernel launched before it");
  verb.add_option("--arch", request.arch, "GPU architecture")
      ->type_name("NAME")
      ->transform(oneOfArchs())
      ->capture_default_str();
  verb.add_option("--schedule", request.schedule, "text of a #kiln.schedule<...>")
      ->type_name("TEXT");
  verb.add_option("--from", request.from, "FILE is the text of this stage")
      ->type_name("STAGE")
      ->check(oneOfStages());
  verb.add_option("--nvrtc", request.nvrtc, "the NVRTC library to use")->type_name("FILE");
  verb.add_option("--save-temps", request.saveTemps, "write every stage into this folder")
      ->type_name("FOLDER");
  verb.add_flag("--json", request.json, "print JSON");
  for (CLI::Option* option : verb.get_options())
    if (option != verb.get_help_ptr())
      option->group(what);
}

void addSizes(CLI::App& verb, Request& request) {
  verb.add_option("--sizes", request.sizes,
                  "values of the run-time sizes, such as 65536 or 8x256; one stands for all")
      ->type_name("SIZES");
}

Module Job::module() const {
  return text ? Module::parse(text(), name) : Module::fromOp(op);
}

Program Job::program() const {
  if (from && *from != Stage::module)
    return Program::resume(*from, text(), options);
  return Program::compile(module(), options);
}

namespace {

/// Sizes may be parted by x or by commas.
std::vector<std::int64_t> sizesOf(std::string text) {
  std::ranges::replace(text, ',', 'x');
  return text.empty() ? std::vector<std::int64_t>{} : parseShape(text);
}

void nameJob(Job& job, const std::string& what, const std::string& shape) {
  bool isOp = !job.text;
  job.label = fmt::format(
      "{}{}{}", what, shape.empty() ? "" : " " + shape,
      isOp ? fmt::format(" {}{}", name(job.op.dtype), settingsLabel(job.op.settings)) : "");
  if (!job.options.function.empty() && job.options.function != what)
    job.label += " " + job.options.function;
  job.label += directionLabel(job.options);
  job.stem = fileName(job.label);
}

void setFile(Job& job, const std::string& path) {
  job.name = path == "-" ? "<stdin>" : path;
  job.text = [path] { return readFile(path); };
}

std::string stemOf(const std::string& path) {
  return path == "-" ? "stdin" : std::filesystem::path(path).stem().string();
}

Job jobOf(const Request& request, const WorkloadEntry& entry) {
  Job job;
  job.options = entry.options(request.compileOptions());
  job.share = entry.share;
  if (entry.isFile) {
    setFile(job, entry.what);
    job.sizes = entry.shape;
  } else {
    job.op = entry.op();
  }
  nameJob(job, entry.isFile ? stemOf(entry.what) : entry.what, shapeText(entry.shape));
  return job;
}

/// Lines that ask for the same kernel become one job with their shares added.
JobList jobsOfWorkload(const Request& request) {
  JobList list;
  Workload workload = parseWorkload(readFile(request.workload), request.workload);
  list.errors = workload.errors;
  for (const WorkloadEntry& entry : workload.entries) {
    Job job = jobOf(request, entry);
    auto same = std::ranges::find(list.jobs, job.label, &Job::label);
    if (same != list.jobs.end() && same->name == job.name) {
      same->share += job.share;
      continue;
    }
    if (same != list.jobs.end()) // two files of one stem in different folders
      job.stem += fmt::format("_line{}", entry.line);
    list.jobs.push_back(std::move(job));
  }
  for (Job& job : list.jobs)
    if (!request.saveTemps.empty())
      job.options.saveTemps = std::filesystem::path(request.saveTemps) / job.stem;
  return list;
}

} // namespace

JobList jobsOf(const Request& request) {
  if (!request.workload.empty()) {
    if (!request.from.empty() || request.backward || !request.schedule.empty())
      throw CLI::ValidationError("--workload", "goes without --from, --backward and --schedule");
    return jobsOfWorkload(request);
  }
  Job job;
  job.options = request.compileOptions();
  job.sizes = sizesOf(request.sizes);
  if (!request.op.empty()) {
    if (request.shape.empty())
      throw CLI::ValidationError("--op", "needs --shape, such as --shape=65536x128");
    if (!request.from.empty())
      throw CLI::ValidationError("--from", "needs a FILE");
    job.op = {request.op, parseShape(request.shape), parseDType(request.dtype), {}};
    for (const std::string& settings : request.settings)
      std::ranges::move(parseSettings(settings), std::back_inserter(job.op.settings));
    nameJob(job, request.op, shapeText(job.op.shape));
  } else if (!request.file.empty()) {
    setFile(job, request.file);
    if (!request.from.empty())
      job.from = parseStage(request.from);
    nameJob(job, stemOf(request.file), shapeText(job.sizes));
  } else {
    throw CLI::ValidationError("nothing to compile", "give FILE.mlir or --op=NAME --shape=SIZES");
  }
  return {{std::move(job)}, {}};
}

std::vector<std::optional<Failure>> runJobs(const std::vector<Job>& jobs, unsigned threads,
                                            bool quiet,
                                            const std::function<void(std::size_t)>& work) {
  std::vector<std::optional<Failure>> failures(jobs.size());
  Progress progress(jobs.size(), !quiet);
  std::atomic<std::size_t> next = 0;
  auto worker = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      try {
        work(i);
      } catch (const Error& error) {
        failures[i] = Failure{error.kind(), error.what()};
      } catch (const std::exception& error) {
        failures[i] = Failure{ErrorKind::input, error.what()};
      }
      progress.step(jobs[i].label);
    }
  };
  unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::size_t count = std::min<std::size_t>(threads == 0 ? cores : threads, jobs.size());
  std::vector<std::jthread> pool;
  for (std::size_t i = 1; i < count; ++i)
    pool.emplace_back(worker);
  worker();
  pool.clear(); // joins
  return failures;
}

int exitCode(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::infeasible:
    return 3;
  case ErrorKind::verification:
    return 4;
  case ErrorKind::missing:
    return 5;
  case ErrorKind::corrupt:
    return 7;
  default:
    return 1;
  }
}

std::string_view kindName(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::input:
    return "input";
  case ErrorKind::infeasible:
    return "infeasible";
  case ErrorKind::unavailable:
    return "unavailable";
  case ErrorKind::verification:
    return "verification";
  case ErrorKind::io:
    return "io";
  case ErrorKind::device:
    return "device";
  case ErrorKind::missing:
    return "missing";
  case ErrorKind::corrupt:
    return "corrupt";
  }
  return "unknown";
}

std::string fileName(std::string text) {
  constexpr std::size_t most = 120;
  text = printable(text.substr(0, most));
  for (char& c : text)
    if (c == ' ' || c == '/' || c == '\\' || c == '?')
      c = c == '?' ? 'n' : '_';
  if (text.empty() || text.front() == '.')
    text.insert(0, "_");
  return text;
}

nlohmann::ordered_json toJson(const Failure& failure) {
  return {{"kind", kindName(failure.kind)}, {"message", failure.text}};
}

int report(const std::vector<Job>& jobs, const std::vector<std::optional<Failure>>& failures,
           const std::vector<std::string>& errors) {
  int code = 0;
  auto worsen = [&](int other) { code = code == 0 || code == other ? other : 1; };
  for (const std::string& error : errors) {
    complain(error);
    worsen(1);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (failures[i]) {
      complain(jobs.size() > 1 ? fmt::format("{}: {}", jobs[i].label, failures[i]->text)
                               : failures[i]->text);
      worsen(exitCode(failures[i]->kind));
    }
  return code;
}

} // namespace kiln::tool
