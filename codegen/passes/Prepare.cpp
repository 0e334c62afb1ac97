// kiln-prepare: removes what lowering left unused and writes into the launch plan what placing
// decided. The last pass that may change the program; printing only reads.
#include "codegen/passes/FunctionPlan.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_PREPARE
#include "codegen/passes/Passes.h.inc"

namespace {

struct Prepare : impl::PrepareBase<Prepare> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto text = module->getAttrOfType<StringAttr>(kLaunchAttr);
    if (!text) {
      module.emitError("has no launch plan ('") << kLaunchAttr << "'); run kiln-lower first";
      return signalPassFailure();
    }
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
    try {
      LaunchPlan plan = parseLaunchPlan(text.getValue());
      for (auto kernel : module.getOps<cu::KernelOp>())
        for (KernelLaunch& launch : plan.kernels)
          if (kernel.getName() == launch.name)
            launch.sharedBytes = kernel.getSharedBytes();
      module->setAttr(kLaunchAttr, StringAttr::get(&getContext(), toJson(plan)));
    } catch (const Error& error) {
      emitError(module, error.kind()) << error.what();
      signalPassFailure();
    }
  }
};

} // namespace

std::unique_ptr<Pass> createPrepare() {
  return std::make_unique<Prepare>();
}

} // namespace kiln::passes
