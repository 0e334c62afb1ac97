// See FusionRequests.h.
#include "codegen/passes/FusionRequests.h"

using namespace mlir;

namespace kiln::passes {

std::optional<Cut> cutWithin(const Group& group) {
  std::optional<Cut> cut;
  for (Operation* op : group)
    if (op->hasAttr(ir::kCutAttr))
      for (Value result : op->getResults())
        eachUser(result, [&](Operation* user) {
          if (!cut && group.contains(user))
            cut = {op, user};
        });
  return cut;
}

bool isPlainElementwise(Operation* op) {
  return op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 &&
         !op->hasAttr(ir::kCutAttr) && !op->hasAttr(ir::kFuseAttr);
}

FailureOr<llvm::MapVector<StringAttr, Group>> requestedGroups(func::FuncOp function) {
  llvm::MapVector<StringAttr, Group> groups;
  auto refuse = [](Operation* op, StringRef attribute, const char* why) {
    return op->emitError("'") << attribute << "' is asked of an operation that " << why;
  };
  for (Operation& op : function.getBody().front().without_terminator()) {
    bool refused = false;
    op.walk([&](Operation* inner) {
      for (StringRef attribute : {ir::kCutAttr, ir::kFuseAttr})
        if (inner != &op && !refused && inner->hasAttr(attribute))
          refuse(inner, attribute, "is in a kernel written by hand; no kernel is cut or merged"),
              refused = true;
    });
    if (refused)
      return failure();
    auto name = op.getAttrOfType<StringAttr>(ir::kFuseAttr);
    if (!name)
      continue;
    if (isa<ir::KernelOp>(op))
      return refuse(&op, ir::kFuseAttr, "is a kernel; write what is to join it into its body");
    if (isRematerializable(&op))
      return refuse(&op, ir::kFuseAttr, "is copied into every kernel that uses it; leave it out");
    groups[name].insert(&op);
  }
  return groups;
}

LogicalResult refuseRequests(func::FuncOp function) {
  for (Operation& op : function.getBody().front())
    for (StringRef attribute : {ir::kCutAttr, ir::kFuseAttr})
      if (op.hasAttr(attribute))
        return op.emitError("'") << attribute
                                 << "' in a function over lists of tensors, whose kernels are "
                                    "parted by its sums alone; leave it out";
  return success();
}

void clearRequests(Operation* op) {
  op->removeAttr(ir::kCutAttr);
  op->removeAttr(ir::kFuseAttr);
}

} // namespace kiln::passes
