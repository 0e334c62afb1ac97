// What the dialect says of names that it does not know: operations, attributes, and fields of
// attributes. Each is an error at its place, with what is allowed there and what is nearest;
// upstream would ignore an unknown attribute, so that a misspelt request did nothing.
#include "dialect/DidYouMean.h"
#include "dialect/Kiln.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kiln::ir {

static constexpr StringLiteral kOnOperations[] = {kCutAttr,     kFuseAttr,   kNearAttr,
                                                  kRoundedAttr, kTargetAttr, kLaunchAttr};
static constexpr StringLiteral kOnTensors[] = {kNameAttr, kLayoutAttr, kOlderAttr, kListAttr,
                                               kGradientAttr};

/// "known are kiln.cut and kiln.fuse; did you mean 'kiln.fuse'?"
static std::string known(StringRef name, ArrayRef<StringLiteral> names) {
  return "known are " + llvm::join(names, ", ") + didYouMean(name, names);
}

LogicalResult verifyOperationName(Operation* op, StringRef name) {
  if (llvm::is_contained(kOnOperations, name))
    return success();
  if (llvm::is_contained(kOnTensors, name))
    return op->emitOpError("attribute '")
           << name << "' belongs to an argument or a result of a function, not to an operation";
  return op->emitOpError("unknown attribute '")
         << name << "' of an operation; " << known(name, kOnOperations);
}

LogicalResult verifyTensorName(Operation* op, StringRef what, unsigned index, StringRef name) {
  if (llvm::is_contained(kOnTensors, name))
    return success();
  auto function = dyn_cast<FunctionOpInterface>(op);
  const bool placed = what == "argument" && function && !function.isExternal();
  InFlightDiagnostic error =
      emitError(placed ? function.getArgument(index).getLoc() : op->getLoc());
  if (llvm::is_contained(kOnOperations, name))
    return error << "attribute '" << name << "' belongs to an operation, not to " << what << " "
                 << index;
  return error << "unknown attribute '" << name << "' of " << what << " " << index << "; "
               << known(name, kOnTensors);
}

LogicalResult verifyOwnAttributes(Operation* op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    const StringRef name = attribute.getName();
    if (name.contains('.')) // of a dialect, which verifies it
      continue;
    SmallVector<StringRef> own;
    for (StringAttr one : op->getName().getAttributeNames())
      if (!one.getValue().ends_with("SegmentSizes"))
        own.push_back(one);
    return op->emitOpError("unknown attribute '")
           << name << "'; "
           << (own.empty() ? std::string("the operation has none")
                           : "the operation has " + llvm::join(own, ", "))
           << didYouMean(name, own);
  }
  return success();
}

static ParseResult refuseOperation(OpAsmParser& parser, OperationState& result) {
  const StringRef name = result.name.getStringRef();
  SmallVector<StringRef> operations, bare;
  for (RegisteredOperationName op : parser.getContext()->getRegisteredOperations())
    if (op.getDialectNamespace() == KilnDialect::getDialectNamespace())
      operations.push_back(op.getStringRef());
  llvm::sort(operations);
  for (StringRef operation : operations)
    bare.push_back(operation.split('.').second);
  return parser.emitError(parser.getNameLoc()) // which begins with "custom op 'kiln.layernorm' "
         << "is unknown; kiln has " << llvm::join(bare, ", ") << didYouMean(name, operations);
}

std::optional<Dialect::ParseOpHook> KilnDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook(refuseOperation);
}

/// The first name before a '=' that is not in `fields`; empty: there is none.
static StringRef unknownField(StringRef text, ArrayRef<StringLiteral> fields) {
  for (size_t equals = text.find('='); equals != StringRef::npos;
       equals = text.find('=', equals + 1)) {
    const StringRef before = text.take_front(equals).rtrim();
    const StringRef field = before.drop_front(before.find_last_of(", \t\r\n") + 1);
    if (!field.empty() && !llvm::is_contained(fields, field))
      return field;
  }
  return {};
}

LogicalResult verifyFields(AsmParser& parser, ArrayRef<StringLiteral> fields) {
  // Texts that are parsed end with a zero. No field of these attributes holds a '>'.
  const char* begin = parser.getCurrentLocation().getPointer();
  const char* end = begin;
  while (*end != '\0' && *end != '>')
    ++end;
  const StringRef field = unknownField(StringRef(begin, end - begin), fields);
  if (field.empty())
    return success();
  // Not by the parser, which would begin with the operation's name if one is being parsed.
  return emitError(parser.getEncodedSourceLoc(SMLoc::getFromPointer(field.data())),
                   "unknown field '")
         << field << "'; there are " << llvm::join(fields, ", ") << didYouMean(field, fields);
}

} // namespace kiln::ir
