// kiln-verify-schedule: every schedule against the limits of the target, with the numbers.
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/ListPlan.h"
#include "codegen/segments/Partition.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "codegen/passes/Passes.h.inc"

namespace {

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  using VerifyScheduleBase::VerifyScheduleBase;

  void runOnOperation() override {
    bool valid = true;
    try {
      const Target& target = findTarget(arch);
      writeTarget(target);
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (!function.isExternal())
          valid &= succeeded(run(function, target));
    } catch (const Error& error) {
      getOperation().emitError(error.what());
      valid = false;
    }
    if (!valid)
      signalPassFailure();
  }

  /// The limits stand in the text beside the schedules that they allowed.
  void writeTarget(const Target& target) {
    getOperation()->setAttr(
        ir::kTargetAttr,
        ir::TargetAttr::get(&getContext(), StringRef(target.arch.data(), target.arch.size()),
                            target.sharedPerBlock, target.sharedPerSM, target.registersPerSM,
                            target.threadsPerSM, target.blocksPerSM, target.maxCluster));
  }

  LogicalResult run(func::FuncOp function, const Target& target) {
    if (segments::isOverLists(function))
      return verify(planLists(function), [&](const rows::Schedule& schedule, ListKernel& kernel) {
        return segments::check(schedule, kernel.facts, target);
      });
    return verify(planFunction(function),
                  [&](const rows::Schedule& schedule, PlannedKernel& kernel) {
                    return rows::check(schedule, factsOf(kernel), target);
                  });
  }

  template <class Plan, class Check> LogicalResult verify(const Plan& plan, Check check) {
    if (failed(plan))
      return failure();
    bool valid = true;
    for (auto& kernel : (*plan)->kernels) {
      if (!kernel.takesSchedule())
        continue;
      if (!kernel.op.getSchedule()) {
        kernel.op.emitError("has no schedule; run kiln-schedule first");
        valid = false;
        continue;
      }
      for (const rows::Violation& violation : check(scheduleOf(*kernel.op.getSchedule()), kernel)) {
        kernel.op.emitError("schedule refused: ") << violation.message;
        valid = false;
      }
    }
    return success(valid);
  }
};

} // namespace

std::unique_ptr<Pass> createVerifySchedule() {
  return std::make_unique<VerifySchedule>();
}
std::unique_ptr<Pass> createVerifySchedule(VerifyScheduleOptions options) {
  return std::make_unique<VerifySchedule>(std::move(options));
}

} // namespace kiln::passes
