// What routing costs the host and gains on the device: LibTorch's own ops with Kiln off and on, in
// turns. Host: calls enqueued without waiting, microseconds a call; it does not depend on the size
// and is measured at small ones. Device: CUDA graphs of calls that rotate through inputs and
// outputs larger than the L2, microseconds a call. Needs a GPU.
//   routed [--workload=FILE] [--json=FILE] [--benchmark_filter=...]; KILN_CACHE=FILE takes tuned
//   kernels from a store
// All in one table, torch.compile too: bench/routed.sh FOLDER.
#include "bench/Entries.h"
#include "kiln/torch.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <tuple>

using at::Tensor;
using namespace kiln::bench;

namespace {

using Clock = std::chrono::steady_clock;
using Results =
    std::array<Tensor, 3>; // alive as long as a graph, so that no two calls share memory

constexpr double kDropped = 0.1;
constexpr int kDeviceSamples = 9, kHostSamples = 45; // others of the machine disturb its host more

/// One input of an op and all that a call of it needs.
struct Operands {
  // `leaf` is x with a gradient, `wide` the weight in fp32.
  Tensor x, leaf, dy, weight, wide, y, logY, mean, rstd, rms, classes, kept;
};
struct Op {
  const char* what;
  bool backward;
  Results (*call)(const Operands&);
};

/// Autocast to bf16, where ATen computes norms and softmax of half precision in fp32: RMSNorm since
/// weights are, by other ops.
struct Autocast {
  Autocast() {
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() { at::autocast::set_autocast_enabled(at::kCUDA, false); }
};

template <typename... Each> Results all(std::tuple<Each...> results) {
  return std::apply([](auto&... each) { return Results{std::move(each)...}; }, results);
}

const Op ops[] = {
    {"layer_norm", false,
     [](const Operands& o) {
       return all(at::native_layer_norm(o.x, {o.x.size(1)}, o.weight, o.weight, 1e-5));
     }},
    {"layer_norm", true,
     [](const Operands& o) {
       return all(at::native_layer_norm_backward(o.dy, o.x, {o.x.size(1)}, o.mean, o.rstd, o.weight,
                                                 o.weight, {true, true, true}));
     }},
    {"rms_norm", false,
     [](const Operands& o) {
       return all(at::_fused_rms_norm(o.x, {o.x.size(1)}, o.weight, 1e-5));
     }},
    {"rms_norm", true,
     [](const Operands& o) {
       return all(
           at::_fused_rms_norm_backward(o.dy, o.x, {o.x.size(1)}, o.rms, o.weight, {true, true}));
     }},
    {"softmax", false, [](const Operands& o) { return Results{at::_softmax(o.x, 1, false)}; }},
    {"softmax", true,
     [](const Operands& o) {
       return Results{at::_softmax_backward_data(o.dy, o.y, 1, o.x.scalar_type())};
     }},
    {"log_softmax", false,
     [](const Operands& o) { return Results{at::_log_softmax(o.x, 1, false)}; }},
    {"log_softmax", true,
     [](const Operands& o) {
       return Results{at::_log_softmax_backward_data(o.dy, o.logY, 1, o.x.scalar_type())};
     }},
    {"gelu", false, [](const Operands& o) { return Results{at::gelu(o.x)}; }},
    {"gelu", true, [](const Operands& o) { return Results{at::gelu_backward(o.dy, o.x)}; }},
    {"silu", false, [](const Operands& o) { return Results{at::silu(o.x)}; }},
    {"silu", true, [](const Operands& o) { return Results{at::silu_backward(o.dy, o.x)}; }},
    {"dropout", false,
     [](const Operands& o) { return all(at::native_dropout(o.x, kDropped, true)); }},
    {"dropout", true,
     [](const Operands& o) {
       return Results{at::native_dropout_backward(o.dy, o.kept, 1 / (1 - kDropped))};
     }},
    {"cross_entropy_loss", false,
     [](const Operands& o) { return Results{at::cross_entropy_loss(o.x, o.classes)}; }},
    {"cross_entropy_loss_with_gradient", false,
     [](const Operands& o) {
       const Tensor loss = at::cross_entropy_loss(o.leaf, o.classes);
       return Results{loss.detach(), torch::autograd::grad({loss}, {o.leaf})[0]};
     }},
    {"layer_norm_in_autocast", false,
     [](const Operands& o) {
       const Autocast on;
       return Results{at::layer_norm(o.x, {o.x.size(1)}, o.weight, o.weight)};
     }},
    {"rms_norm_in_autocast", false,
     [](const Operands& o) {
       const Autocast on;
       return Results{at::rms_norm(o.x, {o.x.size(1)}, o.wide, 1e-5)};
     }},
    {"softmax_in_autocast", false,
     [](const Operands& o) {
       const Autocast on;
       return Results{at::softmax(o.x, 1)};
     }},
};

const Op& opOf(const Entry& entry) {
  for (const Op& op : ops)
    if (op.what == entry.what() && op.backward == entry.workload.backward)
      return op;
  throw kiln::Error(kiln::ErrorKind::input, "'" + entry.what() + "' " + entry.direction() +
                                                " is no routed op; bench/routed.cpp lists them");
}

std::vector<Operands> operandsOf(const Entry& entry) {
  const std::int64_t rows = entry.workload.shape.at(0), columns = entry.workload.shape.at(1);
  const auto dtype = entry.workload.dtype == kiln::DType::f32    ? at::kFloat
                     : entry.workload.dtype == kiln::DType::bf16 ? at::kBFloat16
                                                                 : at::kHalf;
  const auto options = at::TensorOptions(at::kCUDA).dtype(dtype);
  const std::int64_t bytes = rows * columns * static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::int64_t count = std::clamp<std::int64_t>((std::int64_t(256) << 20) / bytes, 2, 16);
  std::vector<Operands> list;
  for (std::int64_t i = 0; i < count; ++i) {
    Operands o;
    o.x = at::randn({rows, columns}, options);
    o.leaf = o.x.detach().requires_grad_();
    o.dy = at::randn_like(o.x);
    o.weight = at::randn({columns}, options);
    o.wide = o.weight.to(at::kFloat);
    o.y = at::softmax(o.x, 1);
    o.logY = at::log_softmax(o.x, 1);
    o.kept = at::rand_like(o.x) > kDropped;
    o.classes = at::randint(columns, {rows}, options.dtype(at::kLong));
    std::tie(std::ignore, o.mean, o.rstd) =
        at::native_layer_norm(o.x, {columns}, o.weight, o.weight, 1e-5);
    o.rms = std::get<1>(at::_fused_rms_norm(o.x, {columns}, o.weight, 1e-5));
    list.push_back(std::move(o));
  }
  return list;
}

double microsecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// For a scope. Guards cost both sides the same and leave the host's caches alone; enable() would
/// open the stores anew.
kiln::Options routed(bool byKiln) {
  kiln::Options options = kiln::Options::fromEnvironment();
  if (!byKiln)
    options.mode = kiln::Mode::off;
  return options;
}

/// A call enqueued without waiting; few enough for the queue to take them all.
double hostTime(const Op& op, const std::vector<Operands>& operands) {
  constexpr int calls = 200, warmups = 20;
  Clock::time_point begin;
  for (int i = -warmups; i < calls; ++i) {
    if (i == 0) {
      c10::cuda::device_synchronize();
      begin = Clock::now();
    }
    op.call(operands[static_cast<std::size_t>(i + warmups) % operands.size()]);
  }
  const double time = microsecondsSince(begin);
  c10::cuda::device_synchronize();
  return time / calls;
}

/// Calls over all operands in turn.
struct Captured {
  Captured(const Op& op, const std::vector<Operands>& operands) {
    c10::cuda::device_synchronize(); // operands were made on another stream
    const c10::cuda::CUDAStreamGuard side(stream());
    graph.capture_begin();
    for (const Operands& one : operands)
      results.push_back(op.call(one));
    graph.capture_end();
    time(); // warm
  }
  /// Of a call: replays, long enough for their start not to count.
  double time() {
    constexpr int replays = 20;
    const c10::cuda::CUDAStreamGuard side(stream());
    c10::cuda::device_synchronize();
    const auto begin = Clock::now();
    for (int i = 0; i < replays; ++i)
      graph.replay();
    c10::cuda::device_synchronize();
    return microsecondsSince(begin) / replays / double(results.size());
  }
  static c10::cuda::CUDAStream stream() {
    static const c10::cuda::CUDAStream one = c10::cuda::getStreamFromPool();
    return one;
  }

  std::vector<Results> results;
  at::cuda::CUDAGraph graph;
};

/// Samples by ATen and by Kiln.
using Samples = std::array<std::vector<double>, 2>;

Samples inTurns(int count, const std::function<double(bool byKiln)>& sample) {
  Samples samples;
  for (int i = 0; i < count; ++i)
    for (bool byKiln : {false, true})
      samples[byKiln].push_back(sample(byKiln));
  for (std::vector<double>& each : samples)
    std::ranges::sort(each);
  return samples;
}

Samples measure(const Op& op, const std::vector<Operands>& operands, bool onDevice) {
  for (bool byKiln : {false, true}) {
    const kiln::Guard guard(routed(byKiln));
    op.call(operands[0]);
    kiln::wait(); // until what it asked for is compiled
  }
  if (!onDevice)
    return inTurns(kHostSamples, [&](bool byKiln) {
      const kiln::Guard guard(routed(byKiln));
      return hostTime(op, operands);
    });
  const auto captured = [&](bool byKiln) {
    const kiln::Guard guard(routed(byKiln));
    return std::make_unique<Captured>(op, operands);
  };
  const auto theirs = captured(false), ours = captured(true);
  return inTurns(kDeviceSamples, [&](bool byKiln) { return (byKiln ? ours : theirs)->time(); });
}

void run(benchmark::State& state, const Entry& entry, bool onDevice, Json& timings) {
  if (!at::hasCUDA()) {
    state.SkipWithError("this LibTorch sees no GPU");
    return;
  }
  Samples samples;
  {
    const std::vector<Operands> operands = operandsOf(entry);
    samples = measure(opOf(entry), operands, onDevice);
  }
  c10::cuda::CUDACachingAllocator::emptyCache(); // what graphs held is kept apart
  for (bool byKiln : {false, true}) {
    const std::vector<double>& sorted = samples[byKiln];
    Json line = {{"source", byKiln ? "kiln" : "aten"}};
    line.update(entry.key());
    if (!onDevice)
      line["direction"] = entry.direction() + ", host";
    line.update({{"share", entry.share},
                 {"microseconds", sorted[sorted.size() / 2]},
                 {"lowest", sorted.front()},
                 {"highest", sorted.back()}});
    timings.push_back(line);
  }
  const double aten = samples[0][samples[0].size() / 2], kiln = samples[1][samples[1].size() / 2];
  for (auto _ : state)
    state.SetIterationTime(kiln * 1e-6);
  state.counters["aten_us"] = aten;
  state.counters["ratio"] = kiln / aten;
}

void registerAll(const std::vector<Entry>& entries, Json& timings) {
  constexpr std::int64_t few = 65536 * 128;
  for (const Entry& entry : entries) {
    opOf(entry); // refuses before anything runs
    for (bool onDevice : {true, false})
      if (onDevice || entry.workload.shape.at(0) * entry.workload.shape.at(1) <= few)
        benchmark::RegisterBenchmark((entry.label() + (onDevice ? "/device" : "/host")).c_str(),
                                     [&entry, onDevice, &timings](benchmark::State& state) {
                                       run(state, entry, onDevice, timings);
                                     })
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMicrosecond);
  }
}

} // namespace

int main(int count, char** given) try {
  const std::string command = commandText({given, static_cast<std::size_t>(count)});
  benchmark::Initialize(&count, given);
  const Arguments arguments =
      parseArguments({given, static_cast<std::size_t>(count)}, command, "bench/routed_cells.txt");
  Json json = reportHeader(arguments, "routed");
  json["timings"] = Json::array();
  const std::vector<Entry> entries = readEntries(arguments.workload);
  registerAll(entries, json["timings"]);
  kiln::enable();
  benchmark::RunSpecifiedBenchmarks();
  writeReport(arguments, json);
  std::printf("%s", kiln::report().c_str());
  return json["timings"].empty();
} catch (const kiln::Error& error) {
  std::fprintf(stderr, "routed: %s\n", error.what());
  return 1;
}
