// What routing costs the host and gains on the device: LibTorch's own ops with Kiln off and on, in
// turns. Host: calls enqueued without waiting, microseconds a call. Device: a CUDA graph of calls
// over inputs that together exceed the L2, microseconds a call; medians. Needs a GPU.
//   routed [--benchmark_...]; KILN_CACHE=FILE takes tuned kernels from a store
#include "kiln/torch.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <cstdio>

using at::Tensor;

namespace {

using Clock = std::chrono::steady_clock;

/// One input of an op and all that a call of it needs.
struct Operands {
  Tensor x, dy, weight, y, mean, rstd, classes;
};
struct Op {
  const char* name;
  void (*call)(const Operands&);
};

/// Autocast to bf16, where ATen computes norms and softmax of half precision in fp32.
struct Autocast {
  Autocast() {
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  }
  ~Autocast() { at::autocast::set_autocast_enabled(at::kCUDA, false); }
};

const Op ops[] = {
    {"layer_norm",
     [](const Operands& o) {
       at::native_layer_norm(o.x, {o.x.size(1)}, o.weight, o.weight, 1e-5);
     }},
    {"layer_norm_backward",
     [](const Operands& o) {
       at::native_layer_norm_backward(o.dy, o.x, {o.x.size(1)}, o.mean, o.rstd, o.weight, o.weight,
                                      {true, true, true});
     }},
    {"rms_norm",
     [](const Operands& o) { at::_fused_rms_norm(o.x, {o.x.size(1)}, o.weight, 1e-6); }},
    {"rms_norm_backward",
     [](const Operands& o) {
       at::_fused_rms_norm_backward(o.dy, o.x, {o.x.size(1)}, o.rstd, o.weight, {true, true});
     }},
    {"softmax", [](const Operands& o) { at::_softmax(o.x, 1, false); }},
    {"softmax_backward",
     [](const Operands& o) { at::_softmax_backward_data(o.dy, o.y, 1, o.x.scalar_type()); }},
    {"gelu", [](const Operands& o) { at::gelu(o.x); }},
    {"gelu_backward", [](const Operands& o) { at::gelu_backward(o.dy, o.x); }},
    {"silu", [](const Operands& o) { at::silu(o.x); }},
    {"cross_entropy", [](const Operands& o) { at::cross_entropy_loss(o.x, o.classes); }},
    {"layer_norm_in_autocast",
     [](const Operands& o) {
       const Autocast on;
       at::layer_norm(o.x, {o.x.size(1)}, o.weight, o.weight);
     }},
    {"softmax_in_autocast",
     [](const Operands& o) {
       const Autocast on;
       at::softmax(o.x, 1);
     }},
};

struct Shape {
  std::int64_t rows, columns;
};
const Shape shapes[] = {{65536, 128}, {32768, 256}, {8192, 1280}, {8192, 2560}, {8192, 10000}};

std::vector<Operands> operandsOf(Shape shape, at::ScalarType dtype) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(dtype);
  const std::int64_t bytes = shape.rows * shape.columns * c10::elementSize(dtype);
  const std::int64_t count = std::clamp<std::int64_t>((std::int64_t(256) << 20) / bytes, 2, 16);
  std::vector<Operands> all;
  for (std::int64_t i = 0; i < count; ++i) {
    Operands o;
    o.x = at::randn({shape.rows, shape.columns}, options);
    o.dy = at::randn_like(o.x);
    o.weight = at::randn({shape.columns}, options);
    o.y = at::softmax(o.x, 1);
    o.classes = at::randint(shape.columns, {shape.rows}, options.dtype(at::kLong));
    std::tie(std::ignore, o.mean, o.rstd) =
        at::native_layer_norm(o.x, {shape.columns}, o.weight, o.weight, 1e-5);
    all.push_back(std::move(o));
  }
  return all;
}

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds a call: enqueued without waiting, few enough for the queue to take them all.
double hostTime(const Op& op, const std::vector<Operands>& operands) {
  constexpr int calls = 200;
  c10::cuda::device_synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i)
    op.call(operands[static_cast<std::size_t>(i) % operands.size()]);
  const double seconds = secondsSince(begin);
  c10::cuda::device_synchronize();
  return seconds / calls;
}

/// Seconds a call on the device: replays of a graph, long enough for their start not to count.
double deviceTime(const Op& op, const std::vector<Operands>& operands) {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard side(stream);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  for (const Operands& one : operands)
    op.call(one);
  graph.capture_end();
  graph.replay();
  c10::cuda::device_synchronize();
  constexpr int replays = 20;
  const auto begin = Clock::now();
  for (int i = 0; i < replays; ++i)
    graph.replay();
  c10::cuda::device_synchronize();
  return secondsSince(begin) / replays / double(operands.size());
}

void run(benchmark::State& state, const Op& op, Shape shape, at::ScalarType dtype, bool onDevice,
         bool routed) {
  const auto operands = operandsOf(shape, dtype);
  if (routed) {
    kiln::enable(kiln::Options::fromEnvironment());
  } else {
    kiln::disable();
  }
  op.call(operands[0]);
  kiln::wait(); // until what it asked for is compiled
  for (auto _ : state)
    state.SetIterationTime(onDevice ? deviceTime(op, operands) : hostTime(op, operands));
  kiln::disable();
  c10::cuda::CUDACachingAllocator::emptyCache(); // what graphs held is kept apart
}

void registerAll() {
  for (const Op& op : ops)
    for (Shape shape : shapes)
      for (auto dtype : {at::kFloat, at::kBFloat16})
        for (bool onDevice : {true, false}) {
          if (!onDevice && shape.rows * shape.columns > 65536 * 128)
            continue; // the queue would fill
          for (bool routed : {false, true})
            benchmark::RegisterBenchmark(
                (std::string(op.name) + "/" + std::to_string(shape.rows) + "x" +
                 std::to_string(shape.columns) + "/" + c10::toString(dtype) +
                 (onDevice ? "/device" : "/host") + (routed ? "/kiln" : "/aten"))
                    .c_str(),
                [=](benchmark::State& state) { run(state, op, shape, dtype, onDevice, routed); })
                ->UseManualTime()
                ->Unit(benchmark::kMicrosecond)
                ->Iterations(1)
                ->Repetitions(9)
                ->ReportAggregatesOnly();
        }
}

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (!at::hasCUDA()) {
    std::printf("this LibTorch sees no GPU; nothing was measured\n");
    return 1;
  }
  registerAll();
  benchmark::RunSpecifiedBenchmarks();
  std::printf("%s", kiln::report().c_str());
  return 0;
}
