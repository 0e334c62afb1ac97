// Registration of the dialect and the checks that verifiers share.
#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln::ir {

/// The types of an operand and of those of two optional ones that are there, in order. Upstream's
/// optional groups would give the type of the second to the first if the first is missing.
using Unresolved = std::optional<mlir::OpAsmParser::UnresolvedOperand>;
static mlir::ParseResult parseOptionalTypes(mlir::OpAsmParser& parser, const Unresolved& second,
                                            const Unresolved& third, mlir::Type& firstType,
                                            mlir::Type& secondType, mlir::Type& thirdType) {
  if (parser.parseType(firstType))
    return mlir::failure();
  if (second && (parser.parseComma() || parser.parseType(secondType)))
    return mlir::failure();
  return mlir::failure(third && (parser.parseComma() || parser.parseType(thirdType)));
}
static void printOptionalTypes(mlir::OpAsmPrinter& printer, mlir::Operation*, mlir::Value second,
                               mlir::Value third, mlir::Type firstType, mlir::Type secondType,
                               mlir::Type thirdType) {
  printer << firstType;
  if (second)
    printer << ", " << secondType;
  if (third)
    printer << ", " << thirdType;
}

} // namespace kiln::ir

#include "dialect/Dialect.cpp.inc"
#include "dialect/Interfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/Ops.cpp.inc"

using namespace mlir;

namespace kiln::ir {

void KilnDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}

void registerDialects(DialectRegistry& registry) {
  registry.insert<KilnDialect, arith::ArithDialect, func::FuncDialect, math::MathDialect>();
}

/// What folders return becomes a constant of arith.
Operation* KilnDialect::materializeConstant(OpBuilder& builder, Attribute value, Type type,
                                            Location location) {
  return arith::ConstantOp::materialize(builder, value, type, location);
}

LogicalResult KilnDialect::verifyOperationAttribute(Operation* op, NamedAttribute attribute) {
  if (failed(verifyOperationName(op, attribute.getName())))
    return failure();
  if (attribute.getName() == kTargetAttr && !isa<TargetAttr>(attribute.getValue()))
    return op->emitOpError("attribute '") << kTargetAttr << "' must be a #kiln.target";
  if (attribute.getName() == kCutAttr && !isa<UnitAttr>(attribute.getValue()))
    return op->emitOpError("attribute '") << kCutAttr << "' takes no value";
  if (attribute.getName() == kFuseAttr && !isa<StringAttr>(attribute.getValue()))
    return op->emitOpError("attribute '")
           << kFuseAttr << "' must be a string, the name that the operations of one kernel share";
  return success();
}

int listPart(Attribute list) {
  auto part = dyn_cast<IntegerAttr>(list);
  return part ? static_cast<int>(part.getInt()) : 0;
}

/// `what` and `index` name the argument or result, of type `type`, that is said to be a list.
static LogicalResult verifyList(Operation* op, Attribute value, StringRef what, unsigned index,
                                Type type) {
  auto part = dyn_cast<IntegerAttr>(value);
  if (!isa<UnitAttr>(value) &&
      (!part || part.getValue().isNegative() || part.getValue().sge(kMaxListParts)))
    return op->emitOpError("attribute '")
           << kListAttr << "' of " << what << " " << index << " is " << value
           << "; write it alone, or with the number of its part, 0 to " << kMaxListParts - 1;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getRank() == 1 && tensor.isDynamicDim(0))
    return success();
  return op->emitOpError() << what << " " << index << " is a list of tensors and has type " << type
                           << "; a list has one dimension of run-time length, as tensor<?xf32>";
}

LogicalResult KilnDialect::verifyRegionResultAttribute(Operation* op, unsigned, unsigned result,
                                                       NamedAttribute attribute) {
  if (failed(verifyTensorName(op, "result", result, attribute.getName())))
    return failure();
  auto function = dyn_cast<func::FuncOp>(op);
  if (attribute.getName() != kListAttr || !function)
    return success();
  return verifyList(op, attribute.getValue(), "result", result, function.getResultTypes()[result]);
}

LogicalResult KilnDialect::verifyRegionArgAttribute(Operation* op, unsigned, unsigned argument,
                                                    NamedAttribute attribute) {
  if (failed(verifyTensorName(op, "argument", argument, attribute.getName())))
    return failure();
  if (attribute.getName() == kNameAttr && !isa<StringAttr>(attribute.getValue()))
    return op->emitOpError("attribute '") << kNameAttr << "' must be a string";
  if (attribute.getName() == kOlderAttr && !isa<UnitAttr>(attribute.getValue()))
    return op->emitOpError("attribute '") << kOlderAttr << "' has no value; write it alone";
  auto function = dyn_cast<func::FuncOp>(op);
  if (attribute.getName() == kListAttr && function)
    return verifyList(op, attribute.getValue(), "argument", argument,
                      function.getArgumentTypes()[argument]);
  if (attribute.getName() != kLayoutAttr)
    return success();
  auto layout = dyn_cast<LayoutAttr>(attribute.getValue());
  if (!layout)
    return op->emitOpError("attribute '") << kLayoutAttr << "' must be a #kiln.layout";
  if (!function)
    return success();
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
  size_t rank = type ? type.getRank() : 0;
  if (!layout.getStrides().empty() && layout.getStrides().size() != rank)
    return op->emitOpError("argument ")
           << argument << " has rank " << rank << ", its layout " << layout.getStrides().size()
           << " strides; give one stride a dimension";
  return success();
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += i ? ", " : "";
    text += ShapedType::isDynamic(shape[i]) ? std::string("?") : std::to_string(shape[i]);
  }
  return text + "]";
}

LogicalResult verifyShape(Operation* op, StringRef what, Value value, ArrayRef<int64_t> shape,
                          StringRef of) {
  if (!value || tensorType(value).getShape() == shape)
    return success();
  return op->emitOpError() << what << " has shape " << shapeText(tensorType(value).getShape())
                           << ", " << of << " asks for " << shapeText(shape);
}

static LogicalResult verifyRank(Operation* op, Value input) {
  if (tensorType(input).getRank() == 0)
    return op->emitOpError("input has rank 0; it needs at least one dimension, the row");
  return success();
}

LogicalResult verifyElementwise(Operation* op, Value input, Value output) {
  if (failed(verifyRank(op, input)))
    return failure();
  return verifyShape(op, "output", output, tensorType(input).getShape(), "the input");
}

LogicalResult verifyRow(Operation* op, Value input) {
  if (failed(verifyRank(op, input)))
    return failure();
  int64_t width = tensorType(input).getShape().back();
  if (ShapedType::isDynamic(width))
    return op->emitOpError("the last dimension of the input is dynamic; it must be a constant "
                           "(kernels are specialised for the row width)");
  if (width == 0)
    return op->emitOpError("the last dimension of the input is 0; a row has at least 1 element");
  return success();
}

LogicalResult verifyTable(Operation* op, StringRef what, Value value) {
  auto type = tensorType(value);
  if (type.getRank() != 2)
    return op->emitOpError() << what << " has rank " << type.getRank()
                             << "; a table has 2 dimensions, its rows and their elements";
  if (type.isDynamicDim(1) || type.getDimSize(1) == 0)
    return op->emitOpError() << what << " has shape " << shapeText(type.getShape())
                             << "; the size of its rows is a constant of at least 1";
  return success();
}

LogicalResult verifyPadding(Operation* op, Value index, std::optional<int64_t> padding) {
  if (!padding || !tensorType(index).getElementType().isInteger(32) ||
      *padding == static_cast<int32_t>(*padding))
    return success();
  return op->emitOpError("padding_index is ")
         << *padding << ", which indices of type i32 cannot hold";
}

LogicalResult verifyStatistic(Operation* op, StringRef what, Value value, Value input) {
  if (!tensorType(value).getElementType().isF32())
    return op->emitOpError() << what << " has elements of type "
                             << tensorType(value).getElementType() << ", it is always f32";
  return verifyShape(op, what, value, tensorType(input).getShape().drop_back(), "the input");
}

NumbersTaken numbersTaken(Value value) {
  for (OpOperand& use : value.getUses()) {
    const unsigned operand = use.getOperandNumber();
    NumbersTaken taken;
    if (auto kernel = dyn_cast<KernelOp>(use.getOwner())) {
      taken = numbersTaken(kernel.getBody().getArgument(operand));
      if (auto argument = dyn_cast_or_null<BlockArgument>(taken.ascendWithin))
        taken.ascendWithin = kernel.getInputs()[argument.getArgNumber()];
    } else if (auto op = dyn_cast<KilnOpInterface>(use.getOwner())) {
      taken = op.numbersTaken(operand);
    }
    if (taken.lowest || taken.ascendWithin)
      return taken;
  }
  return {};
}

} // namespace kiln::ir
