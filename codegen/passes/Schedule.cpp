// kiln-schedule and what it shares with kiln-verify-schedule: schedules as attributes.
#include "codegen/passes/FunctionPlan.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/StringExtras.h"

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
      emitError(getOperation(), error.kind()) << error.what();
      signalPassFailure();
    }
  }

  /// What the last schedules of a kernel have shown, or of one of several that it is lowered to,
  /// whose names begin with its own.
  void noteSpills(model::KernelModel& kernel, const std::string& entryPoint) {
    for (StringRef entry : spilled)
      if (auto [name, count] = entry.rsplit('=');
          name == entryPoint || name.starts_with(entryPoint + "_")) {
        int registers = 0;
        count.getAsInteger(10, registers);
        kernel.noteSpill(registers);
      }
  }

  /// Gives every kernel without a schedule the user's or the default.
  LogicalResult run(func::FuncOp function) {
    const Target& target = findTarget(arch);
    auto plan = planFunction(function);
    if (failed(plan))
      return failure();
    SmallVector<std::string> names;
    for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels) {
      if (!kernel->form())
        continue;
      names.push_back(family::entryName(kernel->op.getName()));
      if (kernel->op.getSchedule())
        continue;
      FailureOr<ir::ScheduleAttr> wanted = wantedFor(kernel->op, names.back());
      if (failed(wanted))
        return failure();
      if (!*wanted) {
        const std::unique_ptr<model::KernelModel> model = kernel->model(ArrayRef<int64_t>(sizes));
        noteSpills(*model, names.back());
        wanted = ir::ScheduleAttr::get(&getContext(), model->usual(target));
      }
      kernel->op.setScheduleAttr(*wanted);
    }
    return checkNames(names);
  }

  /// The user's schedule of a kernel: the one for all, or that of its name; null: none is given.
  FailureOr<ir::ScheduleAttr> wantedFor(ir::KernelOp kernel, StringRef name) {
    if (schedule.empty())
      return ir::ScheduleAttr();
    Attribute given = parseAttribute(schedule.getValue(), &getContext());
    if (auto byName = dyn_cast_if_present<DictionaryAttr>(given)) {
      given = byName.get(name);
      if (!given)
        return ir::ScheduleAttr();
    }
    if (auto attribute = dyn_cast_if_present<ir::ScheduleAttr>(given))
      return attribute;
    return kernel.emitError("not a schedule: ")
           << schedule.getValue() << "; write #kiln.schedule<lanes = 16, vector = 8, "
           << "rows = 2, threads = 128, blocks = 8, grid = one_shot, keep = registers, "
           << "launch = programmatic>, or {" << name << " = #kiln.schedule<...>} for this kernel";
  }

  /// Schedules by name are for kernels that there are.
  LogicalResult checkNames(ArrayRef<std::string> names) {
    if (schedule.empty())
      return success();
    auto byName =
        dyn_cast_if_present<DictionaryAttr>(parseAttribute(schedule.getValue(), &getContext()));
    for (NamedAttribute one : byName ? byName.getValue() : ArrayRef<NamedAttribute>())
      if (!llvm::is_contained(names, one.getName().strref()))
        return getOperation().emitError("a schedule for '")
               << one.getName().strref()
               << "', which is no kernel here; kernels with schedules: " << llvm::join(names, ", ");
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
