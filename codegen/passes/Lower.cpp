// kiln-lower: the kernels of one function as exit operations, and the plan of their launches.
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/ListPlan.h"
#include "codegen/rows/Skeleton.h"
#include "codegen/segments/Partition.h"
#include "codegen/sums/Skeleton.h"

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
    FailureOr<LaunchPlan> launch =
        segments::isOverLists(*found) ? lowerLists(*found) : lowerRows(*found);
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

  static LogicalResult hasSchedule(ir::KernelOp kernel) {
    return kernel.getSchedule() ? success()
                                : kernel.emitError("has no schedule; run kiln-schedule first");
  }

  FailureOr<LaunchPlan> lowerRows(func::FuncOp function) {
    FailureOr<std::unique_ptr<FunctionPlan>> planned = planFunction(function);
    if (failed(planned))
      return failure();
    FunctionPlan& plan = **planned;
    for (PlannedKernel& kernel : plan.kernels) {
      if (kernel.sum) {
        lowerSum(kernel, plan.launch);
        continue;
      }
      if (failed(hasSchedule(kernel.op)))
        return failure();
      rows::KernelContext context{entryName(kernel.op.getName()),
                                  std::move(kernel.program),
                                  *kernel.op.getSchedule(),
                                  kernel.inputs,
                                  kernel.outputs,
                                  kernel.older,
                                  kernel.space};
      rows::lowerKernel(context, getOperation(), plan.launch);
    }
    return plan.launch;
  }

  void lowerSum(PlannedKernel& kernel, LaunchPlan& launch) {
    auto target = getOperation()->getAttrOfType<ir::TargetAttr>(ir::kTargetAttr);
    sums::KernelContext context{entryName(kernel.op.getName()),
                                *kernel.sum,
                                kernel.inputs[kernel.sum->rows.getArgNumber()],
                                kernel.sum->index ? kernel.inputs[kernel.sum->index.getArgNumber()]
                                                  : nullptr,
                                kernel.outputs.front(),
                                ir::tensorType(kernel.op.getResult(0)).getElementType(),
                                target && target.getMaxCluster() > 1};
    sums::lowerKernel(context, getOperation(), launch);
  }

  FailureOr<LaunchPlan> lowerLists(func::FuncOp function) {
    FailureOr<std::unique_ptr<ListPlan>> planned = planLists(function);
    if (failed(planned))
      return failure();
    LaunchPlan& launch = (*planned)->launch;
    for (ListKernel& kernel : (*planned)->kernels) {
      if (failed(hasSchedule(kernel.op)))
        return failure();
      segments::KernelContext context{entryName(kernel.op.getName()),
                                      &kernel.body->getBody().front(),
                                      *kernel.op.getSchedule(),
                                      kernel.inputs,
                                      kernel.outputs,
                                      (*planned)->tables,
                                      {}};
      for (auto [part, bytes] : kernel.widestBytes)
        context.vectors[part] =
            segments::vectorOf(kernel.op.getSchedule()->getVector(), kernel.facts, bytes);
      segments::lowerKernel(context, getOperation(), launch);
    }
    return launch;
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
