// See kiln/baseline.h. Whether ATen computes a task is not told by names: the functions that
// routers write in its place are compared with the task's, text by text.
#include "kiln/baseline.h"

#include "runtime/Backend.h"
#include "runtime/Call.h"
#include "runtime/Route.h"
#include "runtime/baseline/Trial.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <cmath>
#include <fmt/format.h>
#include <torch/version.h>

namespace kiln {

namespace runtime {

at::Tensor Rows::full() const {
  return at::randn({rows, width}, options);
}
at::Tensor Rows::row() const {
  return at::randn({width}, options);
}
at::Tensor Rows::each() const {
  return at::rand({rows, 1}, options.dtype(at::kFloat)).add_(0.5);
}

std::string canonical(const Module& module, CompileOptions options) {
  options.until = Stage::module;
  return Program::compile(module, options).text(Stage::module);
}

namespace {

/// Rows and width of a function whose first argument has rows that are known at run time.
std::optional<Rows> rowsOf(const TuningTask& task, const Program& program) {
  if (program.inputs().empty() || task.sizes.size() != 1)
    return std::nullopt;
  const TensorInfo& x = program.inputs().front();
  const bool isHere = x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::f16;
  if (x.shape.size() != 2 || x.shape[0].isStatic() || !x.shape[1].isStatic() || !isHere)
    return std::nullopt;
  return Rows{task.sizes[0], x.shape[1].size, at::dtype(scalarTypeOf(x.dtype))};
}

/// The op that a router would replace by this very function.
const Route* routeOf(const TuningTask& task, const Rows& rows) {
  const std::string wanted = canonical(task.module, task.options);
  CompileOptions options;
  options.readAhead = task.options.readAhead;
  const Rows one{1, rows.width, rows.options};
  for (const Route* route : routes())
    if (const Trial trial = route->trial ? route->trial(one, Place::cpu) : Trial();
        !trial.module.empty()) {
      options.backward = route->backward;
      if (canonical(Module::parse(trial.module, route->name), options) == wanted)
        return route;
    }
  return nullptr;
}

/// The calls of ATen's that a task is to be compared with.
Trials trialsOf(const TuningTask& task, Place place) {
  CompileOptions options = task.options;
  options.until = Stage::cuda;
  const Program program = Program::compile(task.module, options);
  const std::optional<Rows> rows = rowsOf(task, program);
  if (!rows)
    return attentionTrials(task, program, place);
  const Route* route = routeOf(task, *rows);
  if (!route)
    return {};
  Rows onDevice = *rows;
  onDevice.options = rows->options.device(place == Place::gpu ? at::kCUDA : at::kCPU);
  return {route->name, [route, onDevice, place] { return route->trial(onDevice, place); }};
}

constexpr double kBytesPerMicro = 5e6; // of the fastest memory that there is
constexpr std::int64_t kFewestSets = 4, kMostSets = 64;

/// As the tuner times its own kernels: sets of arguments and results beyond the cache, in turns.
std::vector<double> timeOf(const Trials& trials, const Backend& backend, std::size_t rounds) {
  std::vector<Trial> sets{trials.make()};
  if (!sets[0].call)
    return {};
  std::vector<std::vector<at::Tensor>> results{sets[0].call()};
  std::int64_t bytes = sets[0].bytes;
  for (const at::Tensor& result : results[0])
    bytes += result.defined() ? static_cast<std::int64_t>(result.nbytes()) : 0;
  const Backend::Measuring limits = backend.measuring();
  const std::int64_t wanted = std::clamp(limits.rotated / bytes + 1, kFewestSets, kMostSets);
  const std::int64_t count = std::clamp<std::int64_t>(limits.usable / bytes, 1, wanted);
  while (static_cast<std::int64_t>(sets.size()) < count)
    sets.push_back(trials.make());
  results.resize(sets.size());
  const double each = std::max(1.0, static_cast<double>(bytes) / kBytesPerMicro);
  const auto launches =
      std::max(sets.size(), static_cast<std::size_t>(limits.microseconds / each) + 1);
  // Results stay until their turn comes again: a call never writes where the last one wrote.
  return backend.time(
      [&](std::size_t i) { results[i % sets.size()] = sets[i % sets.size()].call(); }, launches,
      rounds);
}

} // namespace

} // namespace runtime

std::optional<cache::Baseline> timeATen(const TuningTask& task, Place place, std::size_t rounds) {
  using namespace runtime;
  const Backend& backend = backendOf(place);
  if (std::string why = backend.whyNot(); !why.empty())
    throw Error(ErrorKind::unavailable, why);
  const Trials trials = trialsOf(task, place);
  if (!trials.name)
    return std::nullopt;
  std::vector<double> samples;
  try {
    samples = timeOf(trials, backend, rounds);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::infeasible,
                fmt::format("{}: {}", trials.name, error.what_without_backtrace()));
  }
  if (samples.empty())
    return std::nullopt;
  return cache::Baseline{fmt::format("aten {} {}", TORCH_VERSION, trials.name), std::move(samples)};
}

} // namespace kiln
