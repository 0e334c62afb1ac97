// kiln-verify-schedule: every schedule against the limits of the target, with the numbers.
#include "codegen/passes/FunctionPlan.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "codegen/passes/Passes.h.inc"

LogicalResult hasSchedule(family::Kernel& kernel) {
  const ScheduleForm* wanted = kernel.form();
  if (!wanted)
    return success();
  if (!kernel.op.getSchedule())
    return kernel.op.emitError("has no schedule; run kiln-schedule first");
  const ScheduleForm* given = kernel.op.getSchedule()->getSchedule().form;
  if (given != wanted)
    return kernel.op.emitError("has a schedule of the family '")
           << std::string(given->family) << "' and is a kernel of the family '"
           << std::string(wanted->family) << "'";
  return success();
}

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
      emitError(getOperation(), error.kind()) << error.what();
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
    auto plan = planFunction(function);
    if (failed(plan))
      return failure();
    bool valid = true;
    for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels)
      if (kernel->form())
        valid &= succeeded(verify(*kernel, target));
    return success(valid);
  }

  static LogicalResult verify(family::Kernel& kernel, const Target& target) {
    if (failed(hasSchedule(kernel)))
      return failure();
    const auto broken = kernel.model({})->check(kernel.op.getSchedule()->getSchedule(), target);
    for (const model::Violation& violation : broken)
      emitError(kernel.op, ErrorKind::infeasible) << "schedule refused: " << violation.message;
    return success(broken.empty());
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
