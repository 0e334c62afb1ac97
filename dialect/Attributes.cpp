// Layouts, pairs and targets: what can be checked without a kernel.
#include "dialect/Kiln.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::ir {

static constexpr StringLiteral kLayoutFields[] = {"strides", "align", "multiple"};

/// Looks ahead: what the generated parser says of a field that it does not know names none that it
/// does. Consumes and prints nothing.
static ParseResult parseKnownFields(AsmParser& parser, ArrayRef<StringLiteral> fields) {
  return verifyFields(parser, fields);
}
static void printKnownFields(AsmPrinter&, ArrayRef<StringLiteral>) {}

static constexpr int64_t kDefaultAlign = 16, kDefaultMultiple = 1;

/// What follows a layout's strides, each number only where it is not the usual one.
static ParseResult parseLayoutNumbers(AsmParser& parser, int64_t& align, int64_t& multiple) {
  align = kDefaultAlign;
  multiple = kDefaultMultiple;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef field;
    int64_t number = 0;
    if (parser.parseKeyword(&field) || parser.parseEqual() || parser.parseInteger(number))
      return failure();
    (field == "align" ? align : multiple) = number; // the names were checked before
  }
  return success();
}
static void printLayoutNumbers(AsmPrinter& printer, int64_t align, int64_t multiple) {
  if (align != kDefaultAlign)
    printer << ", align = " << align;
  if (multiple != kDefaultMultiple)
    printer << ", multiple = " << multiple;
}

} // namespace kiln::ir

// Strides and alignments are parsed as plain lists; -1 stands for a run-time stride.
#define GET_ATTRDEF_CLASSES
#include "dialect/Attributes.cpp.inc"
#include "dialect/Enums.cpp.inc"

namespace kiln::ir {

void KilnDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Attributes.cpp.inc"
      >();
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> strides, int64_t align, int64_t multiple) {
  for (int64_t stride : strides)
    if (stride < -1)
      return emitError() << "stride " << stride
                         << " is negative; a stride is a number of elements, 0 for a broadcast "
                            "dimension, -1 for one given at run time";
  if (align < 1 || !llvm::isPowerOf2_64(align))
    return emitError() << "alignment " << align << " is not a power of two of bytes";
  if (multiple < 1)
    return emitError() << "strides that are multiples of " << multiple
                       << " elements; give a number from 1 on";
  if (multiple > 1 && !llvm::is_contained(strides.drop_back(strides.empty() ? 0 : 1), -1))
    return emitError() << "multiple = " << multiple
                       << " without a stride before the last that is given at run time (-1), which "
                          "is what it is about";
  return success();
}

LogicalResult PairsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Pairing,
                                int64_t width) {
  if (width < 2 || width % 2 != 0)
    return emitError() << "width " << width
                       << " of pairs of columns; an even number from 2 on is allowed";
  return success();
}

int64_t PairsAttr::partnerOf(int64_t column) const {
  if (column >= getWidth())
    return column;
  if (getKind() == Pairing::interleaved)
    return column ^ 1;
  return (column + getWidth() / 2) % getWidth();
}

} // namespace kiln::ir
