// Layouts, schedules and targets: what can be checked without a kernel.
#include "dialect/Kiln.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::ir {

static constexpr StringLiteral kScheduleFields[] = {"lanes",   "vector", "rows",   "threads",
                                                    "blocks",  "grid",   "keep",   "launch",
                                                    "columns", "stages", "cluster"};
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

LogicalResult ScheduleAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                   int64_t lanes, int64_t vector, int64_t rows, int64_t threads,
                                   int64_t blocks, Grid, Keep keep, LaunchMode, Columns,
                                   int64_t stages, int64_t cluster) {
  if (lanes < 1 || lanes > 1024 || (lanes < 32 ? !llvm::isPowerOf2_64(lanes) : lanes % 32 != 0))
    return emitError() << "lanes = " << lanes
                       << ": a row is shared by 1, 2, 4, 8, 16 threads or a multiple of 32 up to "
                          "1024";
  if (vector < 1 || vector > 16 || !llvm::isPowerOf2_64(vector))
    return emitError() << "vector = " << vector << ": a power of two up to 16 is allowed";
  if (rows < 1 || rows > 16)
    return emitError() << "rows = " << rows << ": 1 to 16 rows a thread are allowed";
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    return emitError() << "threads = " << threads
                       << ": a multiple of 32 from 32 to 1024 is allowed";
  if (cluster != 1 && cluster != 2)
    return emitError() << "cluster = " << cluster << ": 1 or 2 blocks share a row";
  if (cluster == 1 && threads % lanes != 0)
    return emitError() << "lanes = " << lanes << " does not divide threads = " << threads;
  if (cluster > 1 && lanes != threads * cluster)
    return emitError() << "lanes = " << lanes << ": all threads of a cluster of " << cluster
                       << " blocks share a row, " << threads * cluster
                       << " for threads = " << threads;
  if (blocks < 1 || blocks > 32)
    return emitError() << "blocks = " << blocks << ": 1 to 32 blocks a multiprocessor are allowed";
  if (keep == Keep::ring ? stages < 2 || stages > 16 : stages != 0)
    return emitError() << "stages = " << stages << ": keep = ring has 2 to 16, others have none";
  return success();
}

} // namespace kiln::ir
