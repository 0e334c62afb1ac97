// Compares kernels of one task with fp64, at the shapes that their families ask for: its sizes or
// as much of them as the host can follow, tails, the least alignment that they accept. What fp64
// says is computed once, by threads of their own, and for the seed that comes next while the GPU is
// at work.
#pragma once

#include "autotune/measure/Device.h"
#include "autotune/measure/GpuKernel.h"
#include "codegen/family/Shapes.h"
#include "codegen/program/Compare.h"
#include "codegen/program/Operands.h"

#include <future>
#include <map>

namespace kiln::autotune {

class GpuVerifier {
 public:
  /// The function as MLIR, and its run-time sizes.
  GpuVerifier(std::string module, std::vector<std::int64_t> sizes)
      : module(std::move(module)), sizes(std::move(sizes)) {}
  void prepare(const LaunchPlan& plan, std::uint64_t seed);
  Check verify(const GpuKernel& kernel, std::uint64_t seed);

 private:
  using Shape = family::Shape;
  /// Values of all operands, and what fp64 says of them.
  struct Reference {
    std::vector<program::HostTensor> inputs, outputs;
    program::Expected expected;
  };
  using SharedReference = std::shared_future<std::shared_ptr<Reference>>;
  /// A reference on the device.
  struct Memory {
    std::shared_ptr<Reference> reference;
    std::vector<Guarded> inputs, outputs;
    std::optional<program::LaunchBuffers> buffers;
  };
  using Outputs = std::vector<Guarded::Content>;
  static bool areEqual(const Outputs& a, const Outputs& b);
  /// The outputs of one run; `outside` names the output around which memory was hit.
  struct Run {
    Outputs outputs;
    std::string outside;
  };
  static std::shared_ptr<Reference> makeReference(const std::string& text, const LaunchPlan& plan,
                                                  const Shape& shape, std::uint64_t seed,
                                                  program::Signs signs = program::Signs::any);
  SharedReference& reference(const LaunchPlan& plan, const Shape& shape, std::uint64_t seed);
  Memory& memory(const LaunchPlan& plan, const Shape& shape, std::uint64_t seed);
  static Run run(const GpuKernel& kernel, Memory& memory, const Stream& stream);
  static std::string changedInput(Memory& memory);
  /// `proven`: outputs of the same numbers that were found right, or none; found right, this run's
  /// take their place.
  void check(const GpuKernel& kernel, const Shape& shape, Memory& memory, Outputs& proven,
             Check& check);
  static OutputCheck compareOutput(Reference& reference, const Guarded::Content& found,
                                   std::size_t i);
  static void compareOutputs(const Shape& shape, Reference& reference, const Outputs& outputs,
                             Check& check);

  std::string module;
  std::vector<std::int64_t> sizes;
  Stream streams[2];
  std::map<std::string, SharedReference> references; // by shape and seed
  std::map<std::string, Memory> memories;
};

} // namespace kiln::autotune
