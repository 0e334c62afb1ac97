// AdamW over all parameters of a language model, fp32, in place, with and without clipping to a
// global norm: CUDA graphs of a launch, replayed in turns with a copy of as many bytes as the
// update moves (28 an element; clipping reads another 4). The tensors are those of decoder-only
// transformers with RMSNorm, SwiGLU, an untied output layer and a vocabulary of 10,000.
//   adamw [--json=FILE] [--arch=sm_90a] [--nvrtc=FILE] [--benchmark_filter=...]
// The state of the large model and the copy's buffers take 43 GB.
#include "bench/Entries.h"
#include "codegen/backend/Timer.h"
#include "codegen/program/PlainCopy.h"
#include "kiln/lists.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::bench;

namespace {

struct Model {
  const char* name;
  std::int64_t width, hidden, layers;
};
constexpr Model kModels[] = {{"small", 768, 3072, 12}, {"large", 1280, 5120, 36}};
constexpr std::int64_t kVocabulary = 10'000;

/// Elements of each parameter: embedding; per layer two norms, four square matrices and three of
/// the gated network; the last norm; output layer.
std::vector<std::int64_t> parametersOf(const Model& model) {
  const std::int64_t d = model.width, square = d * d, wide = d * model.hidden;
  std::vector<std::int64_t> sizes = {kVocabulary * d};
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    sizes.insert(sizes.end(), {d, square, square, square, square, d, wide, wide, wide});
  sizes.insert(sizes.end(), {d, kVocabulary * d});
  return sizes;
}

/// Lists of p, g, m and v; `norm`: what makes %factor of the last argument, and its result.
std::string textOf(bool clips) {
  const char* norm = "  %square = arith.mulf %g, %g : tensor<?xf32>\n"
                     "  %sum = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>\n"
                     "  %norm = math.sqrt %sum : tensor<f32>\n"
                     "  %tiny = arith.constant dense<1.0e-6> : tensor<f32>\n"
                     "  %one = arith.constant dense<1.0> : tensor<f32>\n"
                     "  %above = arith.addf %norm, %tiny : tensor<f32>\n"
                     "  %ratio = arith.divf %last, %above : tensor<f32>\n"
                     "  %factor = arith.minimumf %ratio, %one : tensor<f32>\n";
  return fmt::format(
      "func.func @adamw(%p: tensor<?xf32> {{kiln.list}}, %g: tensor<?xf32> {{kiln.list}},\n"
      "    %m: tensor<?xf32> {{kiln.list}}, %v: tensor<?xf32> {{kiln.list}},\n"
      "    %lr: tensor<f32>, %step: tensor<f32>, %last: tensor<f32>)\n"
      "    -> (tensor<?xf32> {{kiln.list}}, tensor<?xf32> {{kiln.list}},\n"
      "        tensor<?xf32> {{kiln.list}}) {{\n{}"
      "  %p1, %m1, %v1 = kiln.adamw %p, %g, %m, %v, %lr, %step, {}\n"
      "      {{beta2 = 0.95, weight_decay = 0.1}}\n"
      "      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>,\n"
      "         tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)\n"
      "  return %p1, %m1, %v1 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>\n}}\n",
      clips ? norm : "", clips ? "%factor" : "%last");
}

/// The state of a model on the device; every byte 0x3c: 0.0115, and nothing overflows.
class Optimizer {
 public:
  Optimizer(const Program& program, const std::vector<std::int64_t>& sizes)
      : executable(program), numbers(16) {
    const float given[4] = {1e-4f, 10.0f, 1.0f, 0.0f};
    numbers.upload(std::as_bytes(std::span(given)));
    std::vector<TensorList> state;
    for (int list = 0; list < 4; ++list)
      state.push_back(allocate(sizes));
    TensorLists lists(program.lists(), state, std::vector{state[0], state[2], state[3]});
    table.emplace(lists.tableBytes());
    Stream stream;
    lists.upload(table->data(), stream.get());
    stream.synchronize();
    auto* number = static_cast<float*>(numbers.data());
    Buffer shared[] = {{number, {}, {}}, {number + 1, {}, {}}, {number + 2, {}, {}}};
    inputs = lists.inputs(table->data(), shared);
    workspace.emplace(std::max<std::size_t>(executable.workspaceBytes(inputs), 256));
    elements = lists.elements();
  }

  void launch(CuStream stream) const { executable.launch(inputs, {}, workspace->data(), stream); }
  std::int64_t elements = 0;

 private:
  TensorList allocate(const std::vector<std::int64_t>& sizes) {
    std::int64_t total = 0;
    for (std::int64_t size : sizes)
      total += (size + 63) / 64 * 64;
    DeviceBuffer& buffer = memory.emplace_back(total * sizeof(float));
    buffer.fill(0x3c);
    auto* next = static_cast<float*>(buffer.data());
    TensorList list;
    for (std::int64_t size : sizes) {
      list.push_back({next, {size}, {}});
      next += (size + 63) / 64 * 64;
    }
    return list;
  }

  Executable executable;
  std::vector<DeviceBuffer> memory;
  DeviceBuffer numbers;
  std::optional<DeviceBuffer> table, workspace;
  std::vector<Buffer> inputs;
};

/// The columns by which reports are matched.
Json keyOf(const Model& model, bool clips) {
  return {{"source", "kiln"},
          {"what", "adamw"},
          {"shape", model.name},
          {"dtype", "f32"},
          {"direction", clips ? "clip and step" : "step"}};
}

Json measure(const Model& model, bool clips, const CompileOptions& options) {
  Program program = Program::compile(Module::parse(textOf(clips), "adamw"), options);
  auto sizes = parametersOf(model);
  Optimizer optimizer(program, sizes);
  const std::int64_t bytes = 28 * optimizer.elements;
  program::PlainCopy copy(bytes, 1, options);
  std::vector<Enqueue> work = {[&](CuStream stream, int) { optimizer.launch(stream); },
                               [&](CuStream stream, int) { copy.kernel(stream, 0); },
                               [&](CuStream stream, int) { copy.node(stream, 0); }};
  TimerOptions timing;
  timing.launches = 4;
  timing.replays = 25;
  auto times = timeGraph(work, timing);
  double copied = std::min(times[1].medianMicros, times[2].medianMicros);
  std::vector<double> sorted = times[0].samples;
  std::ranges::sort(sorted);
  Json schedules = Json::array();
  for (const KernelInfo& kernel : program.kernels())
    schedules.push_back({{"kernel", kernel.name},
                         {"schedule", kernel.schedule},
                         {"registers", kernel.usage.registers}});
  Json line = keyOf(model, clips);
  line.update({{"tensors", sizes.size()},
               {"elements", optimizer.elements},
               {"bytes", bytes + (clips ? 4 * optimizer.elements : 0)},
               {"copy_bytes", bytes},
               {"microseconds", times[0].medianMicros},
               {"lowest", sorted.front()},
               {"highest", sorted.back()},
               {"copy_us", copied},
               {"copy_kernel_us", times[1].medianMicros},
               {"copy_node_us", times[2].medianMicros},
               {"ratio_to_copy", times[0].medianMicros / copied},
               {"replays", times[0].samples.size()},
               {"kernels", schedules}});
  return line;
}

void run(benchmark::State& state, const Model& model, bool clips, const CompileOptions& options,
         Json& timings, bool& troubled) try {
  Json timing = measure(model, clips, options);
  for (auto _ : state)
    state.SetIterationTime(timing["microseconds"].get<double>() * 1e-6);
  state.counters["copy_us"] = timing["copy_us"].get<double>();
  state.counters["ratio_to_copy"] = timing["ratio_to_copy"].get<double>();
  state.counters["tensors"] = timing["tensors"].get<double>();
  timings.push_back(std::move(timing));
} catch (const Error& error) {
  troubled = true;
  Json line = keyOf(model, clips);
  line["trouble"] = error.what();
  timings.push_back(std::move(line));
  state.SkipWithError(error.what());
}

} // namespace

int main(int count, char** given) try {
  std::string command = commandText({given, static_cast<std::size_t>(count)});
  benchmark::Initialize(&count, given);
  Arguments arguments = parseArguments({given, static_cast<std::size_t>(count)}, command);
  if (std::string why = whyNoGpu(); !why.empty())
    throw Error(ErrorKind::unavailable, why);
  Json report = reportHeader(arguments, "kiln"), timings = Json::array();
  bool troubled = false;
  for (const Model& model : kModels)
    for (bool clips : {false, true})
      benchmark::RegisterBenchmark(
          fmt::format("adamw/{}{}", model.name, clips ? "/clip" : "").c_str(),
          [&, clips](benchmark::State& state) {
            run(state, model, clips, arguments.compile, timings, troubled);
          })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMicrosecond);
  benchmark::RunSpecifiedBenchmarks();
  report["timings"] = timings;
  writeReport(arguments, report);
  return troubled;
} catch (const Error& error) {
  fmt::print(stderr, "adamw: {}\n", error.what());
  return 1;
}
