// Compares kernels of one task with fp64: at its sizes or as many rows as the host can follow, at
// a tail shape, at the least alignment that they accept. What fp64 says is computed once.
#pragma once

#include "autotune/measure/Device.h"
#include "autotune/measure/GpuKernel.h"
#include "codegen/program/Compare.h"

#include <map>

namespace kiln::autotune {

class GpuVerifier {
 public:
  /// The function as MLIR, and its run-time sizes.
  GpuVerifier(std::string module, std::vector<std::int64_t> sizes)
      : module(std::move(module)), sizes(std::move(sizes)) {}
  Check verify(const GpuKernel& kernel, std::uint64_t seed);

 private:
  struct Shape {
    std::string name;
    std::vector<std::int64_t> sizes;
    bool leastAligned = false;
    FailureKind wrong = FailureKind::wrongResult; // what a wrong value here is called
  };
  struct Reference {
    std::vector<program::HostTensor> inputs, outputs;
    program::Expected expected;
    std::vector<Guarded> deviceInputs, deviceOutputs;
    std::vector<Buffer> inputBuffers, outputBuffers;
  };
  /// The values of all outputs after one run, and what was hit beside them.
  struct Run {
    std::vector<std::vector<std::byte>> outputs;
    std::string outside; // empty: nothing
  };
  std::vector<Shape> shapesOf(const LaunchPlan& plan) const;
  Reference& reference(const LaunchPlan& plan, const Shape& shape, std::uint64_t seed);
  static Run run(const GpuKernel& kernel, Reference& reference, const Stream& stream);
  void check(const GpuKernel& kernel, const Shape& shape, Reference& reference, Check& check);
  static void compareOutputs(const Shape& shape, Reference& reference, const Run& run,
                             Check& check);

  std::string module;
  std::vector<std::int64_t> sizes;
  Stream streams[2];
  std::map<std::string, std::unique_ptr<Reference>> references;
};

} // namespace kiln::autotune
