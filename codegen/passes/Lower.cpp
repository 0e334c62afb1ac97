// kiln-lower: the kernels of one function as exit operations, and the plan of their launches.
#include "codegen/passes/FunctionPlan.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_LOWER
#include "codegen/passes/Passes.h.inc"

namespace {

struct Lower : impl::LowerBase<Lower> {
  using LowerBase::LowerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> found = findFunction(module, function);
    if (failed(found))
      return signalPassFailure();
    FailureOr<LaunchPlan> launch = lower(*found);
    if (failed(launch))
      return signalPassFailure();
    if (failed(haveOwnNames(*found, *launch)))
      return signalPassFailure();
    module->setAttr(kLaunchAttr, StringAttr::get(&getContext(), toJson(*launch)));
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      function.erase();
  }

  static LogicalResult haveOwnNames(func::FuncOp function, const LaunchPlan& launch) {
    llvm::StringSet<> names;
    for (const KernelLaunch& kernel : launch.kernels)
      if (!names.insert(kernel.name).second)
        return function.emitError("two of its kernels would be called '")
               << kernel.name << "'; rename one";
    return success();
  }

  FailureOr<LaunchPlan> lower(func::FuncOp function) {
    auto plan = planFunction(function);
    if (failed(plan))
      return failure();
    LaunchPlan& launch = (*plan)->launch;
    size_t named = 0;
    for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels) {
      if (failed(hasSchedule(*kernel)))
        return failure();
      kernel->lower(getOperation(), launch);
      for (; named < launch.kernels.size(); ++named)
        launch.kernels[named].family = family::nameOf(family::executing(function, kernel->op));
    }
    return std::move(launch);
  }
};

} // namespace

std::unique_ptr<Pass> createLower() {
  return std::make_unique<Lower>();
}
std::unique_ptr<Pass> createLower(LowerOptions options) {
  return std::make_unique<Lower>(std::move(options));
}

} // namespace kiln::passes
