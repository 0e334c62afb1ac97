// See Partition.h.
#include "codegen/families/multi_tensor/Partition.h"

#include "dialect/Scalar.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace kiln::ir;

namespace kiln::multi_tensor {

bool isOverLists(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kListAttr))
      return true;
  return false;
}

/// A list has one dimension of run-time length, everything else none.
static bool hasForm(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && (tensor.getRank() == 0 || (tensor.getRank() == 1 && tensor.isDynamicDim(0)));
}

/// Parts are counted from 0, and each has an argument, which says how long its tensors are.
static LogicalResult checkParts(func::FuncOp function) {
  llvm::SmallBitVector read(kMaxListParts), all(kMaxListParts);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (Attribute list = function.getArgAttr(i, kListAttr))
      read.set(listPart(list));
  all = read;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute list = function.getResultAttr(i, kListAttr))
      all.set(listPart(list));
  for (int part = 0; part <= all.find_last(); ++part)
    if (!read.test(part))
      return function.emitError("no argument is a list of part ")
             << part << ", and there is one of part " << all.find_last()
             << "; parts are counted from 0 and each has an argument";
  return success();
}

LogicalResult checkSignature(func::FuncOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("a function to compile has a body of one block");
  auto check = [&](StringRef what, unsigned i, Type type, bool marked) -> LogicalResult {
    if (hasForm(type) && (cast<RankedTensorType>(type).getRank() == 1) == marked)
      return success();
    return function.emitError() << what << " " << i << " of type " << type
                                << " is neither a list ('" << kListAttr
                                << "') nor without dimensions; the function is over lists";
  };
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (failed(check("argument", i, type, function.getArgAttr(i, kListAttr) != nullptr)))
      return failure();
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(check("result", i, type, function.getResultAttr(i, kListAttr) != nullptr)))
      return failure();
  return checkParts(function);
}

FailureOr<llvm::DenseMap<Value, int>> partsOf(Block& block,
                                              llvm::function_ref<int(unsigned)> ofArgument) {
  llvm::DenseMap<Value, int> parts;
  for (BlockArgument argument : block.getArguments())
    if (isList(argument))
      parts[argument] = ofArgument(argument.getArgNumber());
  for (Operation& op : block.without_terminator()) {
    std::optional<int> part;
    for (Value operand : op.getOperands()) {
      if (!isList(operand))
        continue;
      const int other = parts.lookup(operand);
      if (part.value_or(other) != other)
        return op.emitError("reads lists of part ")
               << *part << " and of part " << other
               << "; their tensors have lengths of their own, so they meet only through sums";
      part = other;
    }
    for (Value result : op.getResults())
      if (isList(result))
        parts[result] = part.value_or(0);
  }
  return parts;
}

LogicalResult checkOperation(Operation& op) {
  for (Value result : op.getResults()) {
    if (!hasForm(result.getType()))
      return op.emitError("a value of type ")
             << result.getType() << " in a function over lists; it is a list or has no dimensions";
    if (tensorType(result).getElementType().isF64())
      return op.emitError("fp64 exists in references only; kernels compute in fp32");
  }
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() != ReduceKind::sum)
    return op.emitError("only sums are taken over lists");
  bool known = isa<arith::ConstantOp, BroadcastOp, ReduceOp>(op) ||
               (isa<KilnOpInterface>(op) && !isa<KernelOp, IndexOp, RandomOp>(op)) ||
               findScalarOp(op.getName().getStringRef());
  return known ? success()
               : op.emitError("'")
                     << op.getName().getStringRef() << "' has no form over lists of tensors";
}

namespace {

class Partition {
 public:
  explicit Partition(func::FuncOp function)
      : function(function), block(function.getBody().front()), end(block.getTerminator()),
        builder(function.getContext()) {}

  void run() {
    SmallVector<Operation*> old;
    for (Operation& op : block.without_terminator()) {
      old.push_back(&op);
      int level = isa<ReduceOp>(op);
      for (Value operand : op.getOperands())
        level = std::max(level, levelOf(operand) + isa<ReduceOp>(op));
      levels[&op] = level;
    }
    int count = 1;
    for (Value value : end->getOperands())
      count = std::max(count, levelOf(value) + isList(value));
    if (count > 1) // as if they depended on the first sum: what they read is not read later
      for (Value value : end->getOperands())
        if (Operation* op = value.getDefiningOp(); op && !isList(value))
          levels[op] = std::max(levels[op], 1);
    wanted.resize(count);
    place = end;
    for (int k = count - 1; k >= 0; --k)
      buildKernel(k, count);
    for (auto [use, value] : ends)
      use->set(value);
    for (auto [before, after] : produced)
      before.replaceUsesWithIf(after, [](OpOperand& use) { return isa<KernelOp>(use.getOwner()); });
    for (Operation* op : llvm::reverse(old))
      op->erase();
  }

 private:
  int levelOf(Value value) const {
    return value.getDefiningOp() ? levels.lookup(value.getDefiningOp()) : 0;
  }
  /// The kernel that stores a value of the function.
  int homeOf(Value value, int count) const {
    bool afterSum = !isList(value) && levelOf(value) > 0;
    return afterSum ? levelOf(value) - 1 : count - 1;
  }

  void buildKernel(int k, int count) {
    SmallVector<OpOperand*> results; // of the function
    SmallVector<Value> values;
    for (OpOperand& operand : end->getOpOperands())
      if (homeOf(operand.get(), count) == k) {
        results.push_back(&operand);
        values.push_back(operand.get());
      }
    llvm::append_range(values, wanted[k]);
    std::string name = function.getName().str() + (count > 1 ? "_" + std::to_string(k) : "");
    SmallVector<Type> types(ValueRange(values).getTypes());
    builder.setInsertionPoint(place);
    auto kernel =
        builder.create<KernelOp>(locationOf(values), types, name, ValueRange(), ScheduleAttr());
    place = kernel;
    builder.setInsertionPointToEnd(&kernel.getBody().emplaceBlock());
    IRMapping inside;
    SmallVector<Value> yielded;
    for (Value value : values)
      yielded.push_back(capture(value, k, kernel, inside));
    builder.create<YieldOp>(kernel.getLoc(), yielded);
    for (auto [i, operand] : llvm::enumerate(results))
      ends.push_back({operand, kernel.getResult(i)});
    for (auto [i, value] : llvm::enumerate(wanted[k]))
      produced.push_back({value, kernel.getResult(results.size() + i)});
  }

  Location locationOf(ArrayRef<Value> values) {
    Operation* op = values.empty() ? nullptr : values.front().getDefiningOp();
    return op ? op->getLoc() : function.getLoc();
  }

  /// Makes `value` available in kernel k: arguments and the numbers of earlier kernels as inputs,
  /// everything else by computing it.
  Value capture(Value value, int k, KernelOp kernel, IRMapping& inside) {
    if (Value known = inside.lookupOrNull(value))
      return known;
    Operation* op = value.getDefiningOp();
    const int level = levelOf(value);
    bool handedOn = op && !isList(value) && level > 0 && level <= k;
    if (!op || handedOn) {
      kernel.getInputsMutable().append(value);
      Value argument = kernel.getBody().front().addArgument(value.getType(), value.getLoc());
      inside.map(value, argument);
      if (handedOn)
        wanted[level - 1].insert(value);
      return argument;
    }
    for (Value operand : op->getOperands())
      capture(operand, k, kernel, inside);
    builder.clone(*op, inside);
    return inside.lookup(value);
  }

  func::FuncOp function;
  Block& block;
  Operation* end;
  OpBuilder builder;
  Operation* place = nullptr;                     // kernels are built from the last to the first
  llvm::DenseMap<Operation*, int> levels;         // sums in a row that a value depends on
  std::vector<llvm::SetVector<Value>> wanted;     // by kernel: numbers that later kernels read
  SmallVector<std::pair<OpOperand*, Value>> ends; // of the terminator
  SmallVector<std::pair<Value, Value>> produced;  // numbers, and the results that replace them
};

} // namespace

LogicalResult partition(func::FuncOp function) {
  if (failed(checkSignature(function)))
    return failure();
  // Kernels hand no lists on to each other, so that a long function cannot be parted.
  constexpr int kMostOperations = 320;
  int operations = 0;
  for (Operation& op : function.getBody().front().without_terminator()) {
    if (isa<KernelOp>(op))
      return op.emitError("a kernel in a function over lists before kiln-fuse, which forms them");
    if (failed(checkOperation(op)))
      return failure();
    operations += !isa<arith::ConstantOp, BroadcastOp>(op);
  }
  if (operations > kMostOperations)
    return function.emitError() << operations
                                << " operations over lists of tensors; a function over "
                                << "lists has up to " << kMostOperations
                                << ". Make several functions of it, each with lists as results";
  Partition(function).run();
  return success();
}

} // namespace kiln::multi_tensor
