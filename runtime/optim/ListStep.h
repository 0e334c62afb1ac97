// AdamW over all parameters of one device by kernels over lists: the program of a step, the table
// that says where the tensors lie, the numbers that launches share, in device memory.
//
// Made once for a set of parameters. A step in which tensors lie elsewhere (gradients are often
// allocated anew) rewrites the table; a step of other parameters, of which other ones have a
// gradient, say, makes everything anew. Nothing waits for the device.
#pragma once

#include "runtime/Backend.h"
#include "runtime/optim/StepOf.h"

#include <memory>
#include <vector>

namespace kiln::optim {

class ListStep {
 public:
  ListStep(runtime::Backend& backend, at::Device device) : backend(backend), device(device) {}

  /// Whether run() needs nothing new but pointers and learning rates.
  bool fits(const StepOf& step) const;
  /// Compiles, allocates and fills tables. Throws Error.
  void prepare(const StepOf& step);
  /// Launches; after prepare(), of what fits.
  void run(const StepOf& step);
  /// Writes learning rates that have changed to the device.
  void setRates(const std::vector<Group>& groups);

  /// The next step takes the number of steps from the state, whatever replays have counted.
  void forget();
  bool isCapturing() const { return backend.isCapturing(); }
  bool wasCaptured() const { return captured; }
  /// Steps done, by parameter, replays of graphs counted in. Waits for the device.
  std::vector<std::pair<const void*, std::int64_t>> readSteps();
  at::Tensor norm() const;      // of the last step, without dimensions
  std::size_t launches() const; // kernels of a step

 private:
  struct Plan;

  void addProgram(Plan& plan, const StepOf& step) const;
  void addNumbers(Plan& plan, const StepOf& step);
  void refresh(Plan& plan, const StepOf& step);
  void advance(Plan& plan) const;

  runtime::Backend& backend;
  at::Device device;
  std::shared_ptr<Plan> plan;
  bool captured = false;
  std::vector<std::shared_ptr<Plan>> kept; // what captured graphs use
};

} // namespace kiln::optim
