// Kiln's default schedules, or those that a store has chosen, on a workload file, each beside a
// plain copy of as many bytes: CUDA graphs of launches that rotate through inputs and outputs
// larger than the L2 cache, replayed in turns with the copy's. Nothing is timed that did not pass
// verification against fp64 first.
//   rows [--workload=FILE] [--store=FILE] [--json=FILE] [--arch=sm_90a] [--nvrtc=FILE]
//        [--benchmark_filter=...]
// Run from the top of the repository, or name the workload. Lines that say the same are one
// benchmark with the sum of their shares.
#include "bench/Chosen.h"
#include "bench/Operands.h"
#include "codegen/backend/Timer.h"
#include "kiln/verify.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

using namespace kiln;
using namespace kiln::bench;

namespace {

constexpr std::int64_t kVerifiedRows = 1000;        // no multiple of a block's rows: tails are met
constexpr std::int64_t kVerifiedElements = 2000000; // the reference is one thread in fp64

/// Rows of the first input to verify.
std::int64_t verifiedRows(const Program& program) {
  const auto& shape = program.inputs().front().shape;
  const std::int64_t width = shape.empty() ? 1 : std::max<std::int64_t>(1, shape.back().size);
  return std::clamp<std::int64_t>(kVerifiedElements / width, 39, kVerifiedRows);
}

struct Row {
  Entry entry;
  std::optional<Program> program;
  double maxError = 0;
  std::string trouble; // why there is no time
  std::int64_t bytes = 0;
  std::size_t sets = 0;
  Timing own, copyKernel, copyNode;
  bool timed = false;

  double copyMicros() const { return std::min(copyKernel.medianMicros, copyNode.medianMicros); }
};

void compileAndVerify(Row& row, CompileOptions options, const Tuner* tuner) try {
  if (tuner)
    options.schedule = chosenSchedule(*tuner, row.entry, options);
  row.program = compileEntry(row.entry, options);
  RunOptions run;
  run.where = Where::gpu;
  for (std::int64_t size : row.entry.sizes())
    run.sizes.push_back(std::min(size, verifiedRows(*row.program)));
  Verification verification = verify(*row.program, run);
  for (const OutputCheck& output : verification.outputs)
    row.maxError = std::max(row.maxError, output.maxError);
  row.trouble = whatIsWrong(verification);
} catch (const Error& error) {
  row.trouble = error.what();
}

void time(Row& row, const CompileOptions& options) {
  Operands operands(*row.program, row.entry.sizes(), options.nvrtc);
  Executable executable(*row.program);
  std::size_t scratch = executable.workspaceBytes(operands.inputs(0));
  DeviceBuffer workspace(std::max<std::size_t>(scratch, 256));
  std::vector<Enqueue> work = {[&](CuStream stream, int i) {
                                 executable.launch(operands.inputs(i), operands.outputs(i),
                                                   workspace.data(), stream);
                               },
                               [&](CuStream stream, int i) { operands.copy().kernel(stream, i); },
                               [&](CuStream stream, int i) { operands.copy().node(stream, i); }};
  TimerOptions timing;
  timing.launches = static_cast<int>(std::max<std::size_t>(operands.sets(), 20));
  timing.replays = 25;
  auto times = timeGraph(work, timing);
  row.own = times[0];
  row.copyKernel = times[1];
  row.copyNode = times[2];
  row.bytes = operands.bytes();
  row.sets = operands.sets();
  row.timed = true;
}

void run(benchmark::State& state, Row& row, const CompileOptions& options) {
  if (row.trouble.empty())
    try {
      time(row, options);
    } catch (const Error& error) {
      row.trouble = error.what();
    }
  if (!row.trouble.empty()) {
    state.SkipWithError(row.trouble.c_str());
    return;
  }
  for (auto _ : state)
    state.SetIterationTime(row.own.medianMicros * 1e-6);
  state.counters["copy_us"] = row.copyMicros();
  state.counters["ratio_to_copy"] = row.own.medianMicros / row.copyMicros();
  state.counters["GBps"] = static_cast<double>(row.bytes) / row.own.medianMicros * 1e-3;
  state.counters["share"] = row.entry.share;
}

Json timingOf(const Row& row) {
  Json json = {{"source", "kiln"}};
  json.update(row.entry.key());
  json["share"] = row.entry.share;
  json["schedule"] = row.program ? row.program->kernels().front().schedule : "";
  if (!row.timed) {
    json["trouble"] = row.trouble.empty() ? "not asked for" : row.trouble;
    return json;
  }
  std::vector<double> sorted = row.own.samples;
  std::ranges::sort(sorted);
  json["microseconds"] = row.own.medianMicros;
  json["lowest"] = sorted.front();
  json["highest"] = sorted.back();
  json["copy_us"] = row.copyMicros();
  json["copy_kernel_us"] = row.copyKernel.medianMicros;
  json["copy_node_us"] = row.copyNode.medianMicros;
  json["ratio_to_copy"] = row.own.medianMicros / row.copyMicros();
  json["bytes"] = row.bytes;
  json["GBps"] = static_cast<double>(row.bytes) / row.own.medianMicros * 1e-3;
  json["sets"] = row.sets;
  json["replays"] = row.own.samples.size();
  json["verified_rows"] = kVerifiedRows;
  json["max_error"] = row.maxError;
  return json;
}

/// Means by share, one a dtype and direction; only of what is complete.
Json weighted(const std::vector<Row>& rows) {
  struct Sum {
    double share = 0, own = 0, copy = 0;
    bool complete = true;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Row& row : rows) {
    Json key = row.entry.key();
    Sum& sum = sums[{key["dtype"], key["direction"]}];
    sum.complete &= row.timed;
    sum.share += row.entry.share;
    sum.own += row.entry.share * row.own.medianMicros;
    sum.copy += row.entry.share * row.copyMicros();
  }
  Json list = Json::array();
  for (const auto& [key, sum] : sums)
    if (sum.complete)
      list.push_back({{"source", "kiln"},
                      {"dtype", key.first},
                      {"direction", key.second},
                      {"share", sum.share},
                      {"microseconds", sum.own / sum.share},
                      {"copy_us", sum.copy / sum.share},
                      {"ratio_to_copy", sum.own / sum.copy}});
  return list;
}

int report(const Arguments& arguments, const std::vector<Row>& rows) {
  Json json = reportHeader(arguments, "kiln");
  json["timings"] = Json::array();
  for (const Row& row : rows)
    json["timings"].push_back(timingOf(row));
  json["weighted"] = weighted(rows);
  for (const Json& line : json["weighted"])
    fmt::print("weighted {} {}: {:.2f} us, copy {:.2f} us, {:.3f} of the copy\n",
               line["dtype"].get<std::string>(), line["direction"].get<std::string>(),
               line["microseconds"].get<double>(), line["copy_us"].get<double>(),
               line["ratio_to_copy"].get<double>());
  writeReport(arguments, json);
  return std::ranges::any_of(rows, [](const Row& row) { return !row.trouble.empty(); });
}

} // namespace

int main(int count, char** given) try {
  std::string command = commandText({given, static_cast<std::size_t>(count)});
  benchmark::Initialize(&count, given);
  std::vector<char*> words(given, given + count);
  std::optional<Tuner> tuner;
  if (auto store = takeOption(words, "--store="))
    tuner = openStore(*store);
  Arguments arguments = parseArguments(words, command);
  std::vector<Row> rows;
  for (Entry& entry : readEntries(arguments.workload))
    rows.emplace_back().entry = std::move(entry);
  if (std::string why = whyNoGpu(); !why.empty())
    throw Error(ErrorKind::unavailable, why);
  for (Row& row : rows) {
    compileAndVerify(row, arguments.compile, tuner ? &*tuner : nullptr);
    benchmark::RegisterBenchmark(
        row.entry.label().c_str(),
        [&](benchmark::State& state) { run(state, row, arguments.compile); })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return report(arguments, rows);
} catch (const Error& error) {
  fmt::print(stderr, "rows: {}\n", error.what());
  return 1;
}
