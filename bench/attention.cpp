// Attention and its gradients as programs, on a workload file: CUDA graphs of launches that rotate
// through inputs and outputs larger than the L2 cache, and each kernel of a backward by itself too.
// Programs are compiled side by side, for the very sizes, with the cost model's choices or those of
// a store.
//   attention [--workload=FILE] [--store=FILE] [--json=FILE] [--arch=sm_90a] [--nvrtc=FILE]
//             [--verify=none|some|all] [--only=TEXT] [--list]
// --verify compares with fp64 before anything is timed: some (the default) is the first program of
// each width, direction and setting. --only takes entries whose label has the text in it. --list
// needs no GPU: it compiles, prints schedules, registers and spills, and verifies on the host what
// --verify names, if anything.
#include "bench/Chosen.h"
#include "bench/Operands.h"
#include "bench/SideBySide.h"
#include "codegen/backend/Timer.h"
#include "kiln/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <thread>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::bench;

namespace {

struct Cell {
  Entry entry;
  std::optional<Program> program;
  std::string trouble; // why there is no time
  bool verified = false;
  std::vector<Program> alone; // its kernels, if it has several, in the order of the launch plan
  Timing whole;
  std::vector<double> parts; // median of each of these
};

/// The program's kernels one by one, each a program that launches nothing else: none where a kernel
/// needs memory that follows another's grid, since it relies on what that has just written.
std::vector<Program> partsOf(const Program& program) {
  const Json plan = Json::parse(program.launchPlan());
  std::vector<Program> parts;
  for (const Json& workspace : plan["workspaces"])
    if (workspace["blocksOf"] >= 0)
      return parts;
  for (const Json& kernel : plan["kernels"]) {
    Json alone = plan;
    alone["kernels"] = Json::array({kernel});
    parts.push_back(Program::load(alone.dump(), program.cubin()));
  }
  return parts;
}

void compile(Cell& cell, const CompileOptions& given, const Tuner* tuner) try {
  CompileOptions options = cell.entry.workload.options(given);
  if (tuner)
    options.schedule = chosenSchedule(*tuner, cell.entry, given);
  cell.program = Program::compile(moduleOf(cell.entry), options);
  if (cell.program->launches() > 1)
    cell.alone = partsOf(*cell.program);
} catch (const Error& error) {
  cell.trouble = error.what();
}

/// Files leave the number of heads open, so that few of them show what is wrong. An op's program
/// has all its sizes in its text.
void verifyCell(Cell& cell, Where where) try {
  constexpr std::int64_t few = 19;
  RunOptions run;
  run.where = where;
  if (cell.entry.workload.isFile)
    for (std::int64_t size : cell.entry.sizes())
      run.sizes.push_back(std::min(size, few));
  const Verification verification = verify(*cell.program, run);
  cell.verified = verification.passed;
  cell.trouble = whatIsWrong(verification);
} catch (const Error& error) {
  cell.trouble = error.what();
}

/// The cells of which none like them comes before.
std::vector<Cell*> someOf(std::vector<Cell>& cells) {
  std::set<std::string> seen;
  std::vector<Cell*> some;
  for (Cell& cell : cells) {
    Json key = cell.entry.key();
    key["shape"] = cell.entry.workload.shape.empty() ? 0 : cell.entry.workload.shape.back();
    if (seen.insert(key.dump()).second)
      some.push_back(&cell);
  }
  return some;
}

/// About as many launches a graph and replays as make a median of a fifth of a second, `sets`
/// launches at least.
Timing timed(const Enqueue& work, std::size_t sets) {
  const int all = static_cast<int>(sets);
  const double one =
      timeGraph(std::span(&work, 1), {.launches = all, .warmups = 1, .replays = 1})[0].medianMicros;
  TimerOptions timing;
  timing.launches = std::max(all, std::min(20, static_cast<int>(2000 / one)));
  timing.replays = std::clamp(static_cast<int>(2e5 / (one * timing.launches)), 5, 25);
  return timeGraph(std::span(&work, 1), timing)[0];
}

void time(Cell& cell, const CompileOptions& options) try {
  Operands operands(*cell.program, cell.entry.sizes(), options.nvrtc);
  const Executable whole(*cell.program);
  DeviceBuffer workspace(std::max<std::size_t>(whole.workspaceBytes(operands.inputs(0)), 256));
  const auto launching = [&](const Executable& executable) {
    return [&](CuStream stream, int i) {
      executable.launch(operands.inputs(i), operands.outputs(i), workspace.data(), stream);
    };
  };
  cell.whole = timed(launching(whole), operands.sets());
  for (const Program& part : cell.alone) { // the workspace holds what they read
    const Executable alone(part);
    cell.parts.push_back(timed(launching(alone), operands.sets()).medianMicros);
  }
} catch (const Error& error) {
  cell.trouble = error.what();
}

/// Operations of an op's products by the usual count, 4 b h s^2 d; 0 of a file.
double operationsOf(const Entry& entry) {
  const auto& shape = entry.workload.shape;
  if (entry.workload.isFile || shape.size() < 3)
    return 0;
  double operations = 4.0 * static_cast<double>(shape[shape.size() - 2]);
  for (std::int64_t size : shape)
    operations *= static_cast<double>(size);
  const Json key = entry.key();
  const bool isCausal = key.contains("settings") && key["settings"].contains("causal");
  return operations * (isCausal ? 0.5 : 1.0) * (entry.workload.backward ? 2.5 : 1.0);
}

std::string_view shortSchedule(const KernelInfo& kernel) {
  std::string_view text = kernel.schedule;
  const auto from = text.find('<');
  return from == text.npos ? text : text.substr(from + 1, text.size() - from - 2);
}

Json lineOf(const Cell& cell) {
  Json json = {{"source", "kiln"}};
  json.update(cell.entry.key());
  if (cell.program) {
    json["kernels"] = Json::array();
    for (const KernelInfo& kernel : cell.program->kernels())
      json["kernels"].push_back({{"name", kernel.name},
                                 {"schedule", shortSchedule(kernel)},
                                 {"registers", kernel.usage.registers},
                                 {"spills", kernel.usage.spillStoreBytes},
                                 {"shared", kernel.usage.sharedBytes}});
  }
  json["verified"] = cell.verified;
  if (!cell.trouble.empty())
    json["trouble"] = cell.trouble;
  if (cell.whole.samples.empty())
    return json;
  const auto [lowest, highest] = std::ranges::minmax(cell.whole.samples);
  json["microseconds"] = cell.whole.medianMicros;
  json["lowest"] = lowest;
  json["highest"] = highest;
  json["replays"] = cell.whole.samples.size();
  if (const double operations = operationsOf(cell.entry); operations > 0)
    json["TFLOPs"] = operations / cell.whole.medianMicros * 1e-6;
  for (std::size_t i = 0; i < cell.parts.size(); ++i)
    json["parts_us"].push_back(cell.parts[i]);
  return json;
}

void print(const Cell& cell) {
  const Json line = lineOf(cell);
  fmt::print("{}:", cell.entry.label());
  if (line.contains("microseconds"))
    fmt::print(" {:.2f} us", line["microseconds"].get<double>());
  if (line.contains("TFLOPs"))
    fmt::print(", {:.0f} TFLOP/s", line["TFLOPs"].get<double>());
  if (line.contains("trouble"))
    fmt::print(" {}", cell.trouble);
  fmt::print("\n");
  for (std::size_t i = 0; cell.program && i < cell.program->kernels().size(); ++i) {
    const KernelInfo& kernel = cell.program->kernels()[i];
    fmt::print("    {}{} registers, {} bytes spilled: {}\n",
               i < cell.parts.size() ? fmt::format("{:.2f} us, ", cell.parts[i]) : "",
               kernel.usage.registers, kernel.usage.spillStoreBytes, shortSchedule(kernel));
  }
  std::fflush(stdout);
}

struct Given {
  Arguments arguments;
  std::optional<std::string> store;
  std::string verify, only;
  bool list = false;
};
Given parse(int count, char** words) {
  std::vector<char*> given(words, words + count);
  Given result;
  const std::string command = commandText(given);
  result.store = takeOption(given, "--store=");
  result.list = takeOption(given, "--list").has_value();
  result.verify = takeOption(given, "--verify=").value_or(result.list ? "none" : "some");
  result.only = takeOption(given, "--only=").value_or("");
  if (result.verify != "none" && result.verify != "some" && result.verify != "all")
    throw Error(ErrorKind::input, fmt::format("--verify={}: none, some or all", result.verify));
  result.arguments =
      parseArguments(given, command, "bench/workloads/attention/language_models.txt");
  return result;
}

void verifySideBySide(std::vector<Cell>& cells, const std::string& which, Where where) {
  constexpr unsigned atOnce = 4; // each holds gigabytes in fp64
  std::vector<Cell*> wanted = someOf(cells);
  if (which == "all") {
    wanted.clear();
    for (Cell& cell : cells)
      wanted.push_back(&cell);
  }
  sideBySide(which == "none" ? 0 : wanted.size(), atOnce, [&](std::size_t i) {
    if (wanted[i]->trouble.empty())
      verifyCell(*wanted[i], where);
  });
}

} // namespace

int main(int count, char** words) try {
  const Given given = parse(count, words);
  const Arguments& arguments = given.arguments;
  if (std::string why = whyNoGpu(); !given.list && !why.empty())
    throw Error(ErrorKind::unavailable, why);
  std::optional<Tuner> tuner;
  if (given.store)
    tuner = openStore(*given.store);
  std::vector<Cell> cells;
  for (Entry& entry : readEntries(arguments.workload))
    if (entry.label().find(given.only) != std::string::npos)
      cells.emplace_back().entry = std::move(entry);
  sideBySide(cells.size(), std::thread::hardware_concurrency(), [&](std::size_t i) {
    compile(cells[i], arguments.compile, tuner ? &*tuner : nullptr);
  });
  verifySideBySide(cells, given.verify, given.list ? Where::host : Where::gpu);
  Json report = reportHeader(arguments, "kiln");
  report["timings"] = Json::array();
  bool isTrouble = false;
  for (Cell& cell : cells) {
    if (!given.list && cell.trouble.empty())
      time(cell, arguments.compile);
    print(cell);
    report["timings"].push_back(lineOf(cell));
    isTrouble |= !cell.trouble.empty();
    writeReport(arguments, report);
  }
  return isTrouble;
} catch (const Error& error) {
  fmt::print(stderr, "attention: {}\n", error.what());
  return 1;
}
