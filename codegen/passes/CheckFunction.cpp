// What a function must be before any pass looks into it: of one block, not endless, with results,
// over tensors whose sizes kernels can count.
#include "codegen/backend/LaunchPlan.h"
#include "codegen/passes/Passes.h"

using namespace mlir;

namespace kiln::passes {
namespace {

/// Passes take seconds for so many operations, and some recurse from one to the next.
constexpr int64_t kMostOperations = 10000;
/// Elements of a tensor: with them bytes and offsets are far from overflowing.
constexpr int64_t kMostElements = int64_t(1) << 56;

bool isElement(Type type) {
  return type.isF32() || type.isBF16() || type.isF16() || type.isF64() || type.isInteger(1) ||
         type.isInteger(32) || type.isInteger(64);
}

/// `what` names the value in the message: "argument 0", "this value".
LogicalResult checkType(Location at, const Twine& what, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !isElement(tensor.getElementType()) || tensor.getEncoding())
    return emitError(at) << what << " is of type " << type
                         << "; functions are over tensors of known rank, without encoding, of f32, "
                            "bf16, f16, f64, i1, i32 or i64, such as tensor<?x128xf32>";
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    const bool counts = !ShapedType::isDynamic(size) && size > 0;
    if (counts && (__builtin_mul_overflow(elements, size, &elements) || elements > kMostElements))
      return emitError(at) << what << " has shape " << ir::shapeText(tensor.getShape())
                           << "; a tensor has up to 2^56 elements";
  }
  return success();
}

LogicalResult checkSignature(func::FuncOp function) {
  if (function.isExternal())
    return function.emitError("'") << function.getName() << "' is declared only; give it a body";
  if (!function.getBody().hasOneBlock())
    return function.emitError("a function to compile has a body of one block");
  if (function.getNumResults() == 0)
    return function.emitError("'")
           << function.getName()
           << "' returns nothing, so there is nothing to compute; return at "
              "least one tensor";
  for (BlockArgument argument : function.getArguments())
    if (failed(checkType(argument.getLoc(), "argument " + Twine(argument.getArgNumber()),
                         argument.getType())))
      return failure();
  return success();
}

} // namespace

LogicalResult checkFunction(func::FuncOp function) {
  if (failed(checkSignature(function)))
    return failure();
  int64_t count = 0;
  auto visited = function.walk([&](Operation* op) {
    ++count;
    for (Value result : op->getResults())
      if (!result.use_empty() && failed(checkType(op->getLoc(), "a result", result.getType())))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (visited.wasInterrupted())
    return failure();
  if (count > kMostOperations)
    return function.emitError("'")
           << function.getName() << "' has " << count << " operations; a function has up to "
           << kMostOperations << ", compile its parts";
  return success();
}

} // namespace kiln::passes
