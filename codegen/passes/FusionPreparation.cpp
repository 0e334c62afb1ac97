// See FusionPreparation.h.
#include "codegen/passes/FusionPreparation.h"

#include "codegen/passes/FunctionPlan.h"

using namespace mlir;

namespace kiln::passes {

Value capture(OpBuilder& builder, Value value, ir::KernelOp kernel, IRMapping& map) {
  if (Value known = map.lookupOrNull(value))
    return known;
  Operation* op = value.getDefiningOp();
  if (!op || !isFree(op)) {
    kernel.getInputsMutable().append(value);
    Value argument = kernel.getBody().front().addArgument(value.getType(), value.getLoc());
    map.map(value, argument);
    return argument;
  }
  for (Value operand : op->getOperands())
    capture(builder, operand, kernel, map);
  builder.clone(*op, map);
  return map.lookup(value);
}

namespace {

class Preparation {
 public:
  explicit Preparation(func::FuncOp function)
      : function(function), block(function.getBody().front()), builder(function.getContext()) {}

  std::list<Group> run() {
    copyReturned();
    absorbIntoKernels();
    prepareSums();
    return std::move(groups);
  }

 private:
  /// Constants and broadcasts that feed a kernel written by hand move into it.
  void absorbIntoKernels() {
    for (auto kernel : block.getOps<ir::KernelOp>()) {
      Block& body = kernel.getBody().front();
      for (unsigned i = 0; i < kernel.getInputs().size();) {
        Value input = kernel.getInputs()[i];
        if (!input.getDefiningOp() || !isFree(input.getDefiningOp())) {
          ++i;
          continue;
        }
        builder.setInsertionPointToStart(&body);
        IRMapping map;
        for (auto [known, argument] : llvm::zip_equal(kernel.getInputs(), body.getArguments()))
          if (known != input)
            map.map(known, argument);
        body.getArgument(i).replaceAllUsesWith(capture(builder, input, kernel, map));
        body.eraseArgument(i);
        kernel.getInputsMutable().erase(i);
      }
    }
  }

  /// A result that is an argument or a constant needs a kernel that copies it. One that is returned
  /// twice is stored twice, by the kernel that computes it if that can be.
  void copyReturned() {
    Operation* end = block.getTerminator();
    builder.setInsertionPoint(end);
    llvm::DenseSet<Value> seen;
    for (OpOperand& operand : end->getOpOperands()) {
      Value value = operand.get();
      bool free = value.getDefiningOp() && isFree(value.getDefiningOp());
      if (value.getDefiningOp() && !free && seen.insert(value).second)
        continue;
      auto type = ir::tensorType(value);
      if (value.getDefiningOp() && !free) {
        operand.set(builder.create<ir::TransposeOp>(value.getLoc(), type, value,
                                                    ir::dimsFrom(0, type.getRank())));
        continue;
      }
      copyInto(operand, "_copy" + std::to_string(operand.getOperandNumber()));
    }
  }
  /// A kernel, where the builder stands, that writes what `operand` reads.
  void copyInto(OpOperand& operand, const std::string& suffix) {
    Location location = operand.getOwner()->getLoc();
    auto copy = builder.create<ir::KernelOp>(location, operand.get().getType(),
                                             function.getName().str() + suffix, ValueRange(),
                                             ir::ScheduleAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&copy.getBody().emplaceBlock());
    IRMapping map;
    Value inner = capture(builder, operand.get(), copy, map);
    builder.create<ir::YieldOp>(location, inner);
    operand.set(copy.getResult(0));
  }

  /// Sums of rows read memory: what they sum is written there if it is computed, before it is
  /// widened if it is; and they round what they store. Each becomes a group that stays alone.
  void prepareSums() {
    for (ir::ReduceOp reduce : llvm::make_early_inc_range(block.getOps<ir::ReduceOp>()))
      sumOfRowsFirst(reduce);
    SmallVector<Operation*> found;
    for (Operation& op : block)
      if (sums::standsAlone(&op))
        found.push_back(&op);
    for (auto [i, op] : llvm::enumerate(found)) {
      Group& group = groups.emplace_back();
      OpOperand* source = &op->getOpOperand(0);
      builder.setInsertionPoint(op);
      if (auto widen = source->get().getDefiningOp<arith::ExtFOp>()) {
        Operation* own = builder.clone(*widen);
        source->set(own->getResult(0));
        source = &own->getOpOperand(0);
        builder.setInsertionPoint(own);
        group.insert(own);
        if (widen.use_empty())
          widen.erase();
      }
      group.insert(op);
      Value result = op->getResult(0);
      if (auto round = result.hasOneUse() ? dyn_cast<arith::TruncFOp>(*result.user_begin())
                                          : arith::TruncFOp())
        group.insert(round);
      auto store = [&](OpOperand& read, const char* suffix) {
        if (Operation* from = read.get().getDefiningOp(); from && isFree(from))
          copyInto(read, suffix + std::to_string(i));
      };
      store(*source, "_summed");
      if (op->getNumOperands() > 1)
        store(op->getOpOperand(1), "_index");
    }
  }
  /// A sum over the last and some other dimensions: over the last first.
  void sumOfRowsFirst(ir::ReduceOp reduce) {
    builder.setInsertionPoint(reduce);
    for (;;) {
      SmallVector<int64_t> dims(reduce.getDims());
      auto type = ir::tensorType(reduce.getInput());
      bool mixed = dims.size() > 1 && dims.back() == type.getRank() - 1 && !reduce.isOverAll();
      if (reduce.getKind() != ir::ReduceKind::sum || !mixed)
        return;
      auto rows = builder.create<ir::ReduceOp>(
          reduce.getLoc(), RankedTensorType::get(type.getShape().drop_back(), builder.getF32Type()),
          reduce.getKind(), reduce.getInput(), dims.pop_back_val());
      reduce.getInputMutable().assign(rows);
      reduce.setDims(dims);
    }
  }

  func::FuncOp function;
  Block& block;
  OpBuilder builder;
  std::list<Group> groups;
};

} // namespace

std::list<Group> prepareFusion(func::FuncOp function) {
  return Preparation(function).run();
}

} // namespace kiln::passes
