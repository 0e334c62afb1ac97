// Layouts, pairs and targets: what can be checked without a kernel.
#include "dialect/Kiln.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::ir {

static constexpr StringLiteral kLayoutFields[] = {"strides", "align"};

/// Looks ahead: what the generated parser says of a field that it does not know names none that it
/// does. Consumes and prints nothing.
static ParseResult parseKnownFields(AsmParser& parser, ArrayRef<StringLiteral> fields) {
  return verifyFields(parser, fields);
}
static void printKnownFields(AsmPrinter&, ArrayRef<StringLiteral>) {}

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
                                 ArrayRef<int64_t> strides, int64_t align) {
  for (int64_t stride : strides)
    if (stride < -1)
      return emitError() << "stride " << stride
                         << " is negative; a stride is a number of elements, 0 for a broadcast "
                            "dimension, -1 for one given at run time";
  if (align < 1 || !llvm::isPowerOf2_64(align))
    return emitError() << "alignment " << align << " is not a power of two of bytes";
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
