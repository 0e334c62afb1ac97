// kernel-compile compile: from MLIR, an op or a workload to cubins and a table of what they use.
#include "kiln/cache.h"
#include "kiln/files.h"
#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

#include <chrono>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

namespace kiln::tool {

namespace {

struct CompileRequest : Request {
  std::string emit;
  std::string output;
  std::string store;
  bool strict = false;
};

struct Compiled {
  std::optional<Program> program;
  double milliseconds = 0;
  bool stored = false; // came from the store, was not compiled
};

/// How far a program must go for an artefact.
Stage stageFor(const std::string& emit) {
  static const std::map<std::string, Stage> stages = {
      {"mlir", Stage::scheduled}, {"cuda", Stage::cuda}, {"ptx", Stage::cuda}};
  auto found = stages.find(emit);
  return found == stages.end() ? Stage::cubin : found->second;
}

/// A text shows the schedule that the assembler accepts where one of Kiln's choice spills; without
/// NVRTC it shows the first choice.
Program programOf(Job job, const std::string& emit) {
  Stage enough = stageFor(emit);
  if (enough != Stage::cubin && job.options.schedule.empty() && !job.from)
    try {
      job.options.until = Stage::cubin;
      return job.program();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable)
        throw;
    }
  job.options.until = enough;
  return job.program();
}

/// Through the store, if there is one.
Compiled compileJob(const Job& job, const CompileRequest& request,
                    const std::optional<Cache>& store) {
  if (!store)
    return {programOf(job, request.emit)};
  Cache::Result result =
      store->compile({job.module(), job.options, job.sizes, job.label}, request.strict);
  return {std::move(result.program), 0, !result.compiled};
}

std::string artefact(const Program& program, const std::string& emit) {
  if (emit == "mlir")
    return program.text(Stage::scheduled);
  if (emit == "cuda")
    return program.text(Stage::cuda);
  if (emit == "ptx")
    return program.ptx();
  if (emit == "json")
    return program.usageJson() + "\n";
  auto bytes = program.cubin();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string extension(const std::string& emit) {
  return emit == "cuda" ? "cu" : emit.empty() ? "cubin" : emit;
}

/// One job writes the file that was named, several write into a folder of that name.
void writeOutput(const CompileRequest& request, const Job& job, bool several,
                 const Program& program) {
  if (request.output.empty() || request.output == "-")
    return;
  std::filesystem::path path = request.output;
  if (several) {
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure)
      throw Error(ErrorKind::io, fmt::format("cannot create the folder '{}': {}", path.string(),
                                             failure.message()));
    path /= fmt::format("{}.{}", job.stem, extension(request.emit));
  }
  writeFile(path, artefact(program, request.emit));
}

void printTable(const JobList& list, const std::vector<Compiled>& compiled) {
  bool several = list.jobs.size() > 1;
  Table table =
      usageTable(several ? std::vector<std::string>{"share", "job"} : std::vector<std::string>{},
                 {"compile ms"});
  std::string remarks;
  for (std::size_t i = 0; i < list.jobs.size(); ++i) {
    if (!compiled[i].program)
      continue;
    const Job& job = list.jobs[i];
    bool first = true;
    for (const KernelInfo& kernel : compiled[i].program->kernels()) {
      auto cells = usageCells(kernel);
      cells.insert(cells.end() - 1, first ? fmt::format("{:.0f}", compiled[i].milliseconds) : "");
      if (several) {
        std::string share = job.share > 0 ? fmt::format("{:.2f}%", job.share * 100) : "";
        cells.insert(cells.begin(), {first ? share : "", first ? job.label : ""});
      }
      table.row(std::move(cells));
      first = false;
    }
    for (const std::string& remark : compiled[i].program->remarks())
      remarks += styled(Style::dim, fmt::format("remark: {}: {}", job.label, remark)) + "\n";
  }
  if (!table.empty())
    print(table.text() + remarks);
}

nlohmann::ordered_json jsonReport(const CompileRequest& request, const JobList& list,
                                  const std::vector<Compiled>& compiled,
                                  const std::vector<std::optional<Failure>>& failures) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < list.jobs.size(); ++i) {
    nlohmann::ordered_json job = {{"label", list.jobs[i].label}};
    if (list.jobs[i].share > 0)
      job["share"] = list.jobs[i].share;
    if (failures[i]) {
      job["error"] = toJson(*failures[i]);
    } else {
      const Program& program = *compiled[i].program;
      job["milliseconds"] = compiled[i].milliseconds;
      job["stored"] = compiled[i].stored;
      for (const char* key : {"inputs", "outputs", "kernels"})
        job[key] = nlohmann::ordered_json::array();
      for (const TensorInfo& tensor : program.inputs())
        job["inputs"].push_back(toJson(tensor));
      for (const TensorInfo& tensor : program.outputs())
        job["outputs"].push_back(toJson(tensor));
      for (const KernelInfo& kernel : program.kernels())
        job["kernels"].push_back(toJson(kernel));
      job["remarks"] = program.remarks();
    }
    jobs.push_back(std::move(job));
  }
  return {{"version", version()},
          {"arch", request.arch},
          {"compilations", compilations()},
          {"jobs", jobs},
          {"errors", list.errors}};
}

void checkOutput(const CompileRequest& request, bool several) {
  if (!request.store.empty()) {
    if (!request.emit.empty() && request.emit != "cubin" && request.emit != "json")
      throw CLI::ValidationError("--store", "keeps cubins; goes without --emit=" + request.emit);
    if (!request.from.empty() || !request.schedule.empty() || !request.saveTemps.empty())
      throw CLI::ValidationError("--store",
                                 "goes without --from, --schedule and --save-temps: a stored "
                                 "kernel is not compiled again");
  }
  bool toStandardOutput = !request.emit.empty() && request.output.empty();
  if (toStandardOutput && request.json)
    throw CLI::ValidationError("--emit", "needs -o beside --json: both would be printed");
  if (several && (toStandardOutput || request.output == "-"))
    throw CLI::ValidationError("--emit", "needs -o FOLDER for a workload");
  bool binary = request.emit == "cubin" || (request.emit.empty() && request.output == "-");
  if (binary && (toStandardOutput || request.output == "-") && isatty(STDOUT_FILENO) != 0)
    throw CLI::ValidationError("--emit", "a cubin is not for a terminal: name a file with -o");
}

int compile(const CompileRequest& request) {
  bool several = !request.workload.empty();
  checkOutput(request, several);
  JobList list = jobsOf(request);
  std::optional<Cache> store;
  if (!request.store.empty())
    store = Cache::open(request.store, /*readOnly=*/request.strict);
  std::vector<Compiled> compiled(list.jobs.size());
  auto failures = runJobs(list.jobs, request.jobs, request.json, [&](std::size_t i) {
    auto start = std::chrono::steady_clock::now();
    compiled[i] = compileJob(list.jobs[i], request, store);
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    compiled[i].milliseconds = elapsed.count();
    writeOutput(request, list.jobs[i], several, *compiled[i].program);
  });

  if (store)
    for (const std::string& warning : store->warnings())
      warn(warning);

  bool printed = request.output == "-" || (!request.emit.empty() && request.output.empty());
  if (request.json)
    printJson(jsonReport(request, list, compiled, failures));
  else if (printed && compiled[0].program)
    printBytes(artefact(*compiled[0].program, request.emit));
  else if (!printed && stageFor(request.emit) == Stage::cubin)
    printTable(list, compiled);
  return report(list.jobs, failures, list.errors);
}

} // namespace

void addCompile(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<CompileRequest>();
  CLI::App* verb = app.add_subcommand("compile", "compile to cubins; tell what each kernel uses");
  addSourceOptions(*verb, *request, true);
  verb->add_option("-o,--output", request->output,
                   "file to write, a folder for a workload; - = the standard output")
      ->type_name("FILE");
  verb->add_option("--emit", request->emit, "what is printed or written (json: what it uses)")
      ->type_name("WHAT")
      ->check(OneOf({"mlir", "cuda", "ptx", "cubin", "json"}));
  auto* store = verb->add_option("--store", request->store,
                                 "take from this store of kernels what it has, and put there what "
                                 "it lacks")
                    ->type_name("FILE");
  verb->add_flag("--strict", request->strict, "compile nothing: what it lacks is an error")
      ->needs(store);
  verb->footer("Example:\n"
               "  kernel-compile compile --op=layer_norm --shape=65536x128 --dtype=bf16 "
               "-o layer_norm.cubin\n"
               "  kernel-compile compile --workload=alphafold_layernorm.txt --store=tuned.db\n"
               "  kernel-compile compile gate.mlir --emit=cuda");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = compile(*request);
  });
}

} // namespace kiln::tool
