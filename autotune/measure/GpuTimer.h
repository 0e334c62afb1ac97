// Times of kernels of one task at its sizes: graph replays over sets of inputs and outputs that
// together exceed the L2 many times, so that nothing is still there when it is used again. Kernels
// take turns within a round, in an order that changes from round to round.
#pragma once

#include "autotune/measure/Device.h"
#include "autotune/measure/GpuKernel.h"
#include "codegen/program/Operands.h"
#include "codegen/program/PlainCopy.h"

namespace kiln::autotune {

class GpuTimer {
 public:
  GpuTimer(const Task& task, const LaunchPlan& plan);
  /// Microseconds of one launch; one row a kernel, one value a round. Null: a copy of as many
  /// bytes.
  std::vector<std::vector<double>> time(std::span<GpuKernel* const> kernels, std::size_t rounds);

 private:
  /// Buffers of all operands, as they are made; then what a launch takes.
  struct Set {
    std::vector<Buffer> inputs, outputs;
    std::optional<program::LaunchBuffers> buffers;
  };
  void fill(const TensorInfo& info, const std::vector<std::int64_t>& symbols, bool isInput);
  void capture(GpuKernel& kernel);
  void captureCopy();

  Task task;
  Stream stream;
  std::vector<Set> sets;
  std::vector<DeviceBuffer> memory;
  std::int64_t bytes = 0; // of a launch
  int launches = 1;       // in a graph
  std::optional<program::PlainCopy> copy;
  std::optional<Graph> copyGraph;
};

} // namespace kiln::autotune
