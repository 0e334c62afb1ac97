// See FusionPreparation.h.
#include "codegen/family/FusionPreparation.h"

#include "codegen/family/Family.h"
#include "dialect/Scalar.h"

using namespace mlir;

namespace kiln::family {

/// Arithmetic on single integers, such as the offset of the second of two dropouts.
static bool isSingleInteger(Operation* op) {
  if (op->getNumResults() != 1 || !ir::findScalarOp(op->getName().getStringRef()))
    return false;
  auto type = ir::tensorType(op->getResult(0));
  return type.getRank() == 0 && type.getElementType().isInteger();
}

bool isRematerializable(Operation* op) {
  if (op->hasAttr(ir::kCutAttr))
    return false;
  auto named = dyn_cast<ir::KilnOpInterface>(op);
  return op->hasTrait<OpTrait::ConstantLike>() || (named && named.isRematerializable()) ||
         isSingleInteger(op);
}

void eachUser(Value value, llvm::function_ref<void(Operation*)> visit) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Operation*> seen; // free operations, which many paths may lead to
  while (!work.empty())
    for (Operation* user : work.pop_back_val().getUsers())
      if (!isRematerializable(user))
        visit(user);
      else if (seen.insert(user).second)
        work.push_back(user->getResult(0));
}

Value capture(OpBuilder& builder, Value value, ir::KernelOp kernel, IRMapping& map) {
  if (Value known = map.lookupOrNull(value))
    return known;
  Operation* op = value.getDefiningOp();
  if (!op || !isRematerializable(op)) {
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

/// Constants and broadcasts that feed a kernel written by hand move into it.
void FusionPreparation::absorbIntoKernels() {
  for (auto kernel : block.getOps<ir::KernelOp>()) {
    Block& body = kernel.getBody().front();
    for (unsigned i = 0; i < kernel.getInputs().size();) {
      Value input = kernel.getInputs()[i];
      if (!input.getDefiningOp() || !isRematerializable(input.getDefiningOp())) {
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
void FusionPreparation::copyReturned() {
  Operation* end = block.getTerminator();
  builder.setInsertionPoint(end);
  llvm::DenseSet<Value> seen;
  for (OpOperand& operand : end->getOpOperands()) {
    Value value = operand.get();
    bool free = value.getDefiningOp() && isRematerializable(value.getDefiningOp());
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
void FusionPreparation::copyInto(OpOperand& operand, const std::string& suffix) {
  Location location = operand.getOwner()->getLoc();
  auto copy = builder.create<ir::KernelOp>(location, operand.get().getType(),
                                           func::FuncOp(function).getName().str() + suffix,
                                           ValueRange(), ir::ScheduleAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&copy.getBody().emplaceBlock());
  IRMapping map;
  Value inner = capture(builder, operand.get(), copy, map);
  builder.create<ir::YieldOp>(location, inner);
  operand.set(copy.getResult(0));
}

std::list<Group> FusionPreparation::run() {
  copyReturned();
  absorbIntoKernels();
  for (const KernelFamily* family : ofKernels())
    family->prepare(*this);
  return std::move(groups);
}

} // namespace kiln::family
