// kiln-canonicalize: folding, common subexpressions, dead code.
#include "codegen/passes/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_CANONICALIZE
#include "codegen/passes/Passes.h.inc"

namespace {

struct Canonicalize : impl::CanonicalizeBase<Canonicalize> {
  void runOnOperation() override {
    // Folding and dead code only: upstream's rewrite patterns may regroup rounding steps.
    if (failed(applyPatternsAndFoldGreedily(getOperation(), RewritePatternSet(&getContext()))))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};

} // namespace

std::unique_ptr<Pass> createCanonicalize() {
  return std::make_unique<Canonicalize>();
}

static FailureOr<func::FuncOp> checked(func::FuncOp function) {
  if (failed(checkFunction(function)))
    return failure();
  return function;
}

FailureOr<func::FuncOp> findFunction(ModuleOp module, StringRef name) {
  std::string known;
  func::FuncOp only;
  int count = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getName() == name)
      return checked(function);
    known += (count++ ? ", @" : "@") + function.getName().str();
    only = function;
  }
  if (!name.empty())
    return module.emitError("no function @")
           << name << "; the module has " << (count ? known : "none");
  if (count != 1)
    return module.emitError("the module has ")
           << count << " functions" << (count ? " (" + known + ")" : "")
           << "; name the one to compile";
  return checked(only);
}

} // namespace kiln::passes
