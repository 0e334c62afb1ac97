// kiln-canonicalize: folding, common subexpressions, dead code.
#include "codegen/passes/Passes.h"
#include "dialect/DidYouMean.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringExtras.h"

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
  SmallVector<StringRef> names;
  func::FuncOp only;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getName() == name)
      return checked(function);
    names.push_back(function.getName());
    only = function;
  }
  const std::string known = names.empty() ? "" : "@" + llvm::join(names, ", @");
  if (!name.empty())
    return module.emitError("no function @")
           << name << "; the module has " << (names.empty() ? "none" : known)
           << didYouMean(name, names);
  if (names.size() != 1)
    return module.emitError("the module has ")
           << names.size() << " functions" << (names.empty() ? "" : " (" + known + ")")
           << "; name the one to compile";
  return checked(only);
}

} // namespace kiln::passes
