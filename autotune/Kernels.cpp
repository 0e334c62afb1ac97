// See Kernels.h.
#include "autotune/Kernels.h"

#include "codegen/backend/Symbols.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/program/State.h"

namespace kiln::autotune {

std::vector<NamedKernel> kernelsOf(const std::string& text,
                                   const std::vector<std::int64_t>& sizes) {
  program::Session session;
  auto module = session.parse(text, "<fused>");
  auto function = passes::findFunction(*module, "");
  if (failed(function))
    session.fail("finding the function");
  auto plan = passes::planFunction(*function);
  if (failed(plan))
    session.fail("planning");
  const LaunchPlan& launch = (*plan)->launch;
  checkSizes(launch.function, launch.inputs, launch.outputs, sizes);
  std::vector<NamedKernel> all;
  for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels)
    if (std::unique_ptr<model::KernelModel> model = kernel->model(sizes))
      all.push_back({kernel->op.getName().str(), std::move(model)});
  return all;
}

} // namespace kiln::autotune
