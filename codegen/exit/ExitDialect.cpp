// Registration of the exit dialect.
#include "codegen/exit/Exit.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "codegen/exit/Dialect.cpp.inc"
#include "codegen/exit/Interfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "codegen/exit/Types.cpp.inc"
#define GET_OP_CLASSES
#include "codegen/exit/Ops.cpp.inc"

namespace kiln::cu {

void CuDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "codegen/exit/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "codegen/exit/Ops.cpp.inc"
      >();
}

} // namespace kiln::cu
