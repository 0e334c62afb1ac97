// kiln-schedule and what it shares with kiln-verify-schedule: schedules as attributes.
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/ListPlan.h"
#include "codegen/segments/Partition.h"

#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_SCHEDULE
#include "codegen/passes/Passes.h.inc"

namespace {

struct Schedule : impl::ScheduleBase<Schedule> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    try {
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (!function.isExternal() && failed(run(function)))
          return signalPassFailure();
    } catch (const Error& error) { // no exception may cross MLIR's frames
      getOperation().emitError(error.what());
      signalPassFailure();
    }
  }

  /// Into the facts of a kernel: what its last schedules have shown.
  template <class Facts> void noteSpills(Facts& facts, const std::string& entryPoint) {
    for (StringRef entry : spilled)
      if (auto [name, count] = entry.rsplit('='); name == entryPoint) {
        count.getAsInteger(10, facts.spilledRegisters);
        ++facts.spills;
      }
  }

  LogicalResult run(func::FuncOp function) {
    const Target& target = findTarget(arch);
    if (segments::isOverLists(function))
      return give(planLists(function), [&](ListKernel& kernel) {
        noteSpills(kernel.facts, entryName(kernel.op.getName()));
        return segments::defaultSchedule(kernel.facts, target);
      });
    return give(planFunction(function), [&](PlannedKernel& kernel) {
      rows::Facts facts = factsOf(kernel);
      noteSpills(facts, entryName(kernel.op.getName()));
      return rows::defaultSchedule(facts, target);
    });
  }

  /// Gives every kernel of a plan without a schedule the user's or the default.
  template <class Plan, class Default> LogicalResult give(const Plan& plan, Default choose) {
    if (failed(plan))
      return failure();
    for (auto& kernel : (*plan)->kernels) {
      if (kernel.op.getSchedule() || !kernel.takesSchedule())
        continue;
      ir::ScheduleAttr attribute;
      if (!schedule.empty()) {
        attribute = dyn_cast_if_present<ir::ScheduleAttr>(
            parseAttribute(schedule.getValue(), &getContext()));
        if (!attribute)
          return kernel.op.emitError("not a schedule: ")
                 << schedule.getValue() << "; write #kiln.schedule<lanes = 16, vector = 8, "
                 << "rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, "
                 << "launch = programmatic>";
      } else {
        attribute = scheduleAttr(&getContext(), choose(kernel));
      }
      kernel.op.setScheduleAttr(attribute);
    }
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createSchedule() {
  return std::make_unique<Schedule>();
}
std::unique_ptr<Pass> createSchedule(ScheduleOptions options) {
  return std::make_unique<Schedule>(std::move(options));
}

} // namespace kiln::passes
