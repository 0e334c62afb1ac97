// kiln-opt: MLIR text in, passes by name, MLIR text out. Holds no logic of its own.
#include "codegen/family/Family.h"
#include "codegen/passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

using namespace kiln;

namespace {

struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> arch{*this, "arch", llvm::cl::desc("the target"), llvm::cl::init("sm_90a")};
  Option<std::string> schedule{*this, "schedule",
                               llvm::cl::desc("text of a #kiln.schedule for every kernel")};
  Option<std::string> function{*this, "function",
                               llvm::cl::desc("name of the function (default: the only one)")};
};

/// What Program::compile runs, from a function to what can be printed.
void buildPipeline(mlir::OpPassManager& manager, const PipelineOptions& options) {
  passes::FuseOptions fuse;
  fuse.arch = options.arch;
  passes::ScheduleOptions schedule;
  schedule.arch = options.arch;
  schedule.schedule = options.schedule;
  passes::VerifyScheduleOptions verify;
  verify.arch = options.arch;
  passes::LowerOptions lower;
  lower.function = options.function;
  manager.addPass(passes::createCanonicalize());
  manager.addPass(passes::createFuse(fuse));
  manager.addPass(passes::createSchedule(schedule));
  manager.addPass(passes::createVerifySchedule(verify));
  manager.addPass(passes::createLower(lower));
  manager.addPass(passes::createPlace());
  manager.addPass(passes::createPrepare());
}

} // namespace

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  family::registerDialects(registry);
  passes::registerPasses();
  mlir::PassPipelineRegistration<PipelineOptions> pipeline(
      "kiln-emittable", "All passes from a function to what can be printed", buildPipeline);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Kiln's passes\n", registry));
}
