// kiln-differentiate: reverse mode on the tensor graph, then a cut between forward and backward.
// One function with forward and backward is built first, then split: what the backward reads of
// the forward is saved or computed again, whichever moves fewer bytes (Saved.h).
#include "codegen/family/Elementary.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/FusionRequests.h"
#include "codegen/passes/Passes.h"
#include "codegen/passes/Saved.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_DIFFERENTIATE
#include "codegen/passes/Passes.h.inc"

namespace {

bool isFloat(Value value) {
  return isa<FloatType>(ir::tensorType(value).getElementType());
}

class Splitter {
 public:
  Splitter(func::FuncOp function, bool together, bool older)
      : function(function), together(together), older(older), builder(function.getContext()) {}

  LogicalResult run() {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, ir::kListAttr))
        return function.emitError("argument ")
               << i << " is a list of tensors; functions over lists have no backward";
    joint = func::FuncOp::create(function.getLoc(), "joint", function.getFunctionType());
    OwningOpRef<func::FuncOp> owner(joint);
    function.getBody().cloneInto(&joint.getBody(), mapping);
    joint.walk([](Operation* op) { clearRequests(op); });
    block = &joint.getBody().front();
    auto end = block->getTerminator();
    results.assign(end->operand_begin(), end->operand_end());
    end->erase();
    findWanted();
    if (failed(addGradients()))
      return failure();
    expandForward();
    builder.setInsertionPointAfter(function);
    if (together) {
      buildTogether();
      return success();
    }
    chooseWhatIsSaved();
    if (llvm::any_of(saved, [&](Value v) { return v.getDefiningOp() && !isResult(v); }))
      buildForward();
    buildBackward();
    return success();
  }

 private:
  bool differentiable(DictionaryAttr attributes) {
    auto flag = attributes ? attributes.getAs<BoolAttr>(ir::kGradientAttr) : BoolAttr();
    return !flag || flag.getValue();
  }
  bool isResult(Value value) { return llvm::is_contained(results, value); }

  /// Values that a differentiable argument's numbers reach.
  void findWanted() {
    for (BlockArgument argument : block->getArguments())
      if (isFloat(argument) && differentiable(function.getArgAttrDict(argument.getArgNumber())))
        wanted.insert(argument);
    for (Operation& op : *block)
      if (readsWanted(op))
        for (Value result : op.getResults())
          if (isFloat(result))
            wanted.insert(result);
  }
  /// Of the operand that tells sizes no number is read.
  bool readsWanted(Operation& op) const {
    auto named = dyn_cast<ir::KilnOpInterface>(op);
    const Value sizes = named ? named.shapeSource() : Value();
    const auto reads = [&](Value v) { return wanted.contains(v); };
    return llvm::count_if(op.getOperands(), reads) > (sizes && reads(sizes) ? 1 : 0);
  }

  LogicalResult addGradients() {
    SmallVector<Operation*> forward;
    for (Operation& op : *block)
      forward.push_back(&op);
    builder.setInsertionPointToEnd(block);
    ir::MathBuilder math(builder, function.getLoc());
    ir::Gradient gradient(math, wanted);
    for (auto [i, result] : llvm::enumerate(results)) {
      if (!isFloat(result) || !wanted.contains(result) ||
          !differentiable(function.getResultAttrDict(i)))
        continue;
      Value given = block->addArgument(result.getType(), result.getLoc());
      cotangents.push_back({given, i});
      gradient.add(result, given);
    }
    if (cotangents.empty())
      return function.emitError("no result depends on an argument with a gradient; there is "
                                "nothing to differentiate");
    for (Operation* op : llvm::reverse(forward)) {
      bool reached = llvm::any_of(op->getResults(), [&](Value v) { return !!gradient.of(v); });
      math.location = op->getLoc();
      if (reached && readsWanted(*op) && failed(ir::differentiate(op, gradient)))
        return failure();
    }
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Value argument = block->getArgument(i);
      if (!wanted.contains(argument))
        continue;
      Value d = gradient.of(argument);
      if (!d)
        d = math.constant(0.0, argument);
      gradients.push_back({math.cast(d, ir::tensorType(argument).getElementType()), i});
    }
    return success();
  }

  /// Named operations of the forward become elementary, so that their pieces can be computed
  /// again; equal values become one.
  void expandForward() {
    builder.setInsertionPointToEnd(block);
    SmallVector<Value> ends(results);
    for (auto& [gradient, index] : gradients)
      ends.push_back(gradient);
    auto end = builder.create<func::ReturnOp>(function.getLoc(), ends);
    family::decomposeNamedOps(*block);
    IRRewriter rewriter(function.getContext());
    DominanceInfo dominance(joint);
    eliminateCommonSubExpressions(rewriter, dominance, joint);
    results.assign(end.operand_begin(), end.operand_begin() + results.size());
    for (auto [i, gradient] : llvm::enumerate(gradients))
      gradient.first = end.getOperand(results.size() + i);
  }

  /// What the backward reads of the forward, arguments first.
  void chooseWhatIsSaved() {
    SmallVector<Value> given, wantedGradients;
    for (auto& [cotangent, index] : cotangents)
      given.push_back(cotangent);
    for (auto& [gradient, index] : gradients)
      wantedGradients.push_back(gradient);
    saved = chooseSaved(*block, results, given, wantedGradients);
  }

  // --- names and signatures -------------------------------------------------------------------

  StringAttr nameOf(DictionaryAttr attributes, const Twine& fallback) {
    auto name = attributes ? attributes.getAs<StringAttr>(ir::kNameAttr) : StringAttr();
    return name ? name : builder.getStringAttr(fallback);
  }
  StringAttr argumentName(unsigned i) {
    return nameOf(function.getArgAttrDict(i), "in" + Twine(i));
  }
  StringAttr resultName(unsigned i) {
    return nameOf(function.getResultAttrDict(i), "out" + Twine(i));
  }
  StringAttr savedName(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argumentName(argument.getArgNumber());
    if (auto* found = llvm::find(results, value); found != results.end())
      return resultName(found - results.begin());
    StringAttr& name = savedNames[value];
    if (!name)
      name = unusedName(isa<NameLoc>(value.getLoc()) ? cast<NameLoc>(value.getLoc()).getName()
                                                     : builder.getStringAttr("saved"));
    return name;
  }
  /// Two norms save two `rstd`: tensors are given and found by name, so the second is `rstd_1`.
  StringAttr unusedName(StringAttr wanted) {
    if (takenNames.empty()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        takenNames.insert(argumentName(i));
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        takenNames.insert(resultName(i));
    }
    StringAttr name = wanted;
    for (int i = 1; !takenNames.insert(name).second; ++i)
      name = builder.getStringAttr(wanted.getValue() + "_" + Twine(i));
    return name;
  }

  void buildForward() {
    SmallVector<Type> types(function.getResultTypes());
    SmallVector<Value> extra;
    for (Value value : saved)
      if (value.getDefiningOp() && !isResult(value)) {
        extra.push_back(value);
        types.push_back(value.getType());
      }
    auto forward =
        builder.create<func::FuncOp>(function.getLoc(), function.getName().str() + "_forward",
                                     builder.getFunctionType(function.getArgumentTypes(), types));
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      forward.setArgAttrs(i, function.getArgAttrDict(i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      forward.setResultAttrs(i, function.getResultAttrDict(i));
    for (auto [i, value] : llvm::enumerate(extra))
      forward.setResultAttr(function.getNumResults() + i, ir::kNameAttr, savedName(value));
    Block* body = forward.addEntryBlock();
    IRMapping map;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      map.map(block->getArgument(i), body->getArgument(i));
    SmallVector<Value> ends(results);
    llvm::append_range(ends, extra);
    finish(body, map, ends);
  }

  void buildBackward() {
    SmallVector<Type> inputs, outputs;
    for (Value value : saved)
      inputs.push_back(value.getType());
    for (auto& [given, index] : cotangents)
      inputs.push_back(given.getType());
    for (auto& [gradient, index] : gradients)
      outputs.push_back(gradient.getType());
    auto backward =
        builder.create<func::FuncOp>(function.getLoc(), function.getName().str() + "_backward",
                                     builder.getFunctionType(inputs, outputs));
    Block* body = backward.addEntryBlock();
    IRMapping map;
    unsigned next = 0;
    for (Value value : saved) {
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (auto layout = function.getArgAttr(argument.getArgNumber(), ir::kLayoutAttr))
          backward.setArgAttr(next, ir::kLayoutAttr, layout);
        // The forward read it, and ran before: whatever launch precedes the backward is younger.
        if (older)
          backward.setArgAttr(next, ir::kOlderAttr, builder.getUnitAttr());
      }
      backward.setArgAttr(next, ir::kNameAttr, savedName(value));
      map.map(value, body->getArgument(next++));
    }
    SmallVector<Value> ends;
    addGradientsTo(backward, next, map, ends);
    finish(body, map, ends);
  }

  /// The arguments from `next` on are given gradients; the results after `ends` are gradients.
  void addGradientsTo(func::FuncOp to, unsigned next, IRMapping& map, SmallVector<Value>& ends) {
    for (auto& [given, index] : cotangents) {
      to.setArgAttr(next, ir::kNameAttr, builder.getStringAttr("d" + resultName(index).getValue()));
      map.map(given, to.getArgument(next++));
    }
    for (auto& [gradient, index] : gradients) {
      to.setResultAttr(ends.size(), ir::kNameAttr,
                       builder.getStringAttr("d" + argumentName(index).getValue()));
      ends.push_back(gradient);
    }
  }

  /// Forward and backward as one function, for gradients that are known before the results are.
  void buildTogether() {
    SmallVector<Type> inputs(function.getArgumentTypes()), outputs(function.getResultTypes());
    for (auto& [given, index] : cotangents)
      inputs.push_back(given.getType());
    for (auto& [gradient, index] : gradients)
      outputs.push_back(gradient.getType());
    auto both =
        builder.create<func::FuncOp>(function.getLoc(), function.getName().str() + "_with_gradient",
                                     builder.getFunctionType(inputs, outputs));
    Block* body = both.addEntryBlock();
    IRMapping map;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      both.setArgAttrs(i, function.getArgAttrDict(i));
      map.map(block->getArgument(i), body->getArgument(i));
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      both.setResultAttrs(i, function.getResultAttrDict(i));
    SmallVector<Value> ends(results);
    addGradientsTo(both, function.getNumArguments(), map, ends);
    finish(body, map, ends);
  }

  /// Clones into `body` what `ends` need and `map` does not give.
  void finish(Block* body, IRMapping& map, ArrayRef<Value> ends) {
    llvm::DenseSet<Operation*> needed;
    SmallVector<Value> work(ends);
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation* op = value.getDefiningOp();
      if (!op || map.contains(value) || !needed.insert(op).second)
        continue;
      llvm::append_range(work, op->getOperands());
    }
    OpBuilder inner = OpBuilder::atBlockEnd(body);
    for (Operation& op : *block)
      if (needed.contains(&op))
        inner.clone(op, map);
    SmallVector<Value> values;
    for (Value end : ends)
      values.push_back(map.lookup(end));
    inner.create<func::ReturnOp>(function.getLoc(), values);
  }

  func::FuncOp function;
  bool together, older;
  OpBuilder builder;
  func::FuncOp joint;
  Block* block = nullptr;
  IRMapping mapping;
  SmallVector<Value> results, saved;
  llvm::DenseMap<Value, StringAttr> savedNames;
  llvm::DenseSet<StringAttr> takenNames;
  llvm::DenseSet<Value> wanted;
  SmallVector<std::pair<Value, unsigned>> cotangents, gradients; // and argument or result index
};

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;
  void runOnOperation() override {
    FailureOr<func::FuncOp> found = findFunction(getOperation(), function);
    if (failed(found) || failed(Splitter(*found, together, older).run()))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createDifferentiate() {
  return std::make_unique<Differentiate>();
}
std::unique_ptr<Pass> createDifferentiate(DifferentiateOptions options) {
  return std::make_unique<Differentiate>(std::move(options));
}

} // namespace kiln::passes
