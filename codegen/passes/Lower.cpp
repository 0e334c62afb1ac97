// kiln-lower: the kernels of one function as exit operations, and the plan of their launches.
#include "codegen/passes/FunctionPlan.h"
#include "codegen/rows/Skeleton.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_LOWER
#include "codegen/passes/Passes.h.inc"

namespace {

/// Entry points share one name space with the device library and C++.
std::string entryName(StringRef name) {
  std::string entry = name.str();
  for (char& c : entry)
    c = llvm::isAlnum(c) ? c : '_';
  if (isReservedName(entry))
    return entry + "_kernel";
  return llvm::isDigit(entry.front()) ? "k" + entry : entry;
}

struct Lower : impl::LowerBase<Lower> {
  using LowerBase::LowerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> found = findFunction(module, function);
    if (failed(found))
      return signalPassFailure();
    FailureOr<std::unique_ptr<FunctionPlan>> planned = planFunction(*found);
    if (failed(planned))
      return signalPassFailure();
    FunctionPlan& plan = **planned;
    for (PlannedKernel& kernel : plan.kernels) {
      if (!kernel.op.getSchedule()) {
        kernel.op.emitError("has no schedule; run kiln-schedule first");
        return signalPassFailure();
      }
      rows::KernelContext context{entryName(kernel.op.getName()),
                                  std::move(kernel.program),
                                  *kernel.op.getSchedule(),
                                  kernel.inputs,
                                  kernel.outputs,
                                  kernel.space};
      rows::lowerKernel(context, module, plan.launch);
    }
    module->setAttr(kLaunchAttr, StringAttr::get(&getContext(), toJson(plan.launch)));
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      function.erase();
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
