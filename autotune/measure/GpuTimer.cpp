// See GpuTimer.h.
#include "autotune/measure/GpuTimer.h"

#include "codegen/backend/Timer.h"
#include "codegen/family/Shapes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace kiln::autotune {
namespace {

constexpr double kReplayMicros = 200;     // a replay takes at least
constexpr double kEnoughMicros = 2000;    // and need not take more
constexpr std::int64_t kBeyondCache = 12; // times the L2, by all sets together
constexpr std::int64_t kFewestSets = 4, kMostSets = 64;
constexpr double kBytesPerMicro = 5e6;   // of the fastest memory that there is
constexpr std::int64_t kDrawn = 1 << 18; // numbers; larger tensors repeat them

} // namespace

GpuTimer::GpuTimer(const Task& given, const LaunchPlan& plan) : task(given) {
  const DeviceInfo& device = Driver::get().currentDevice();
  const std::vector<std::int64_t> lengths = family::typicalLengthsOf(plan);
  const program::Operands operands(plan, lengths);
  for (const auto* group : {&operands.inputs, &operands.outputs})
    for (const TensorInfo& info : *group)
      bytes += static_cast<std::int64_t>(
          program::layoutOf(info, program::sizesOf(info, task.sizes)).bytes);
  bytes = std::max<std::int64_t>(bytes, 1);
  std::int64_t count =
      std::clamp(kBeyondCache * device.l2Bytes / bytes + 1, kFewestSets, kMostSets);
  count = std::clamp<std::int64_t>(device.memoryBytes / 2 / bytes, 1, count);
  sets.resize(static_cast<std::size_t>(count));
  launches = static_cast<int>(std::max(
      static_cast<double>(count),
      std::ceil(kReplayMicros / std::max(1.0, static_cast<double>(bytes) / kBytesPerMicro))));
  for (const TensorInfo& info : operands.inputs)
    fill(info, task.sizes, true);
  for (const TensorInfo& info : operands.outputs)
    fill(info, task.sizes, false);
  Driver::get().synchronize();
  for (Set& set : sets)
    set.buffers.emplace(plan, lengths, std::move(set.inputs), std::move(set.outputs));
}

void GpuTimer::fill(const TensorInfo& info, const std::vector<std::int64_t>& symbols,
                    bool isInput) {
  const std::vector<std::int64_t> sizes = program::sizesOf(info, symbols);
  const program::Layout layout = program::layoutOf(info, sizes);
  TensorInfo flat;
  flat.dtype = info.dtype;
  flat.lowest = info.lowest;
  flat.ascendsTo = info.ascendsTo;
  const auto elements = static_cast<std::int64_t>(layout.bytes / sizeInBytes(info.dtype));
  flat.shape = {{std::min(elements, kDrawn), -1}};
  program::HostTensor some(flat, {flat.shape[0].size});
  if (isInput) {
    std::mt19937_64 random(1);
    ir::Tensor64 drawn = program::draw(flat, symbols, random);
    if (info.dtype == DType::i1) // open, as masks of whole crops and of texts without padding are
      std::ranges::fill(drawn.data, 1.0);
    some.write(drawn);
  }
  for (Set& set : sets) {
    DeviceBuffer& buffer = memory.emplace_back(std::max<std::size_t>(layout.bytes, 16));
    if (isInput)
      buffer.repeat(some.data());
    (isInput ? set.inputs : set.outputs).push_back({buffer.data(), sizes, layout.strides});
  }
}

void GpuTimer::capture(GpuKernel& kernel) {
  auto launch = [&](CuStream to, int i) {
    const program::LaunchBuffers& set = *sets[static_cast<std::size_t>(i) % sets.size()].buffers;
    kernel.program.launch(set.inputs, set.outputs, kernel.workspace->data(), to);
  };
  kernel.workspace.emplace(std::max<std::size_t>(
      kernel.program.workspaceBytes(sets[0].buffers->inputs, sets[0].buffers->outputs), 256));
  launch(stream.get(), 0); // outside the graph first: errors show at their call
  stream.synchronize();
  const auto began = std::chrono::steady_clock::now();
  launch(stream.get(), 0);
  stream.synchronize();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  kernel.launches = static_cast<int>(
      std::clamp(std::ceil(kEnoughMicros / took.count()), 1.0, static_cast<double>(launches)));
  kernel.graph.emplace(Graph::capture(stream, [&](CuStream captured) {
    for (int i = 0; i < kernel.launches; ++i)
      launch(captured, i);
  }));
  kernel.graph->launch(stream);
}

/// By a kernel: the driver's copy was measured to be slower.
void GpuTimer::captureCopy() {
  CompileOptions options;
  options.arch = task.arch;
  options.nvrtc = task.nvrtc;
  const std::int64_t enough = kBeyondCache * Driver::get().currentDevice().l2Bytes / bytes + 1;
  copy.emplace(bytes, std::min(enough, static_cast<std::int64_t>(sets.size())), options);
  copy->kernel(stream.get(), 0);
  stream.synchronize();
  copyGraph.emplace(Graph::capture(stream, [&](CuStream captured) {
    for (int i = 0; i < launches; ++i)
      copy->kernel(captured, i);
  }));
  copyGraph->launch(stream);
}

std::vector<std::vector<double>> GpuTimer::time(std::span<GpuKernel* const> kernels,
                                                std::size_t rounds) {
  for (GpuKernel* kernel : kernels)
    if (kernel && !kernel->graph)
      capture(*kernel);
    else if (!kernel && !copyGraph)
      captureCopy();
  std::vector<const Graph*> graphs;
  for (const GpuKernel* kernel : kernels) {
    const Graph& graph = kernel ? *kernel->graph : *copyGraph;
    graph.launch(stream); // warm: code, clocks
    graphs.push_back(&graph);
  }
  auto samples = replayInTurns(stream, graphs, rounds);
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for (double& micros : samples[k])
      micros /= kernels[k] ? kernels[k]->launches : launches;
  return samples;
}

} // namespace kiln::autotune
