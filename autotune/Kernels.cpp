// See Kernels.h.
#include "autotune/Kernels.h"

#include "codegen/backend/Symbols.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/program/State.h"

namespace kiln::autotune {

PlannedFunction plannedFunction(const std::string& text, std::span<const std::int64_t> sizes) {
  program::Session session;
  auto module = session.parse(text, "<fused>");
  auto function = passes::findFunction(*module, "");
  if (failed(function))
    session.fail("finding the function");
  auto plan = passes::planFunction(*function);
  if (failed(plan))
    session.fail("planning");
  PlannedFunction found{std::move((*plan)->launch), {}};
  checkSizes(found.launch.function, found.launch.inputs, found.launch.outputs, sizes);
  for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels)
    if (std::unique_ptr<model::KernelModel> model = kernel->model({sizes.data(), sizes.size()})) {
      found.kernels.push_back({kernel->op.getName().str(), std::move(model), {}});
      if (const auto schedule = kernel->op.getSchedule())
        found.kernels.back().schedule = schedule->getSchedule();
    }
  return found;
}

model::RooflineOfAll rooflineOf(const Task& task) {
  CompileOptions options;
  options.arch = task.arch;
  options.until = Stage::fused;
  const Program program = Program::compile(Module::parse(task.module), options);
  const Target& target = findTarget(task.arch);
  std::vector<model::Roofline> kernels;
  for (const NamedKernel& kernel : plannedFunction(program.text(Stage::fused), task.sizes).kernels)
    kernels.push_back(model::rooflineOf(*kernel.model, target));
  return model::rooflineOf(kernels);
}

} // namespace kiln::autotune
