// Linked with all of kiln_dialect and what it stands on: that it links is the test.
#include "dialect/Kiln.h"

#include "mlir/IR/MLIRContext.h"

int main() {
  mlir::MLIRContext context;
  return context.getOrLoadDialect<kiln::ir::KilnDialect>() ? 0 : 1;
}
