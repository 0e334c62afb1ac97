// Kinds of errors. A diagnostic has no room for one but in its location.
#include "codegen/passes/Passes.h"

using namespace mlir;

namespace kiln::passes {

using LocationOfKind = FusedLocWith<IntegerAttr>;

InFlightDiagnostic emitError(Operation* op, ErrorKind kind) {
  Builder builder(op->getContext());
  const auto number = builder.getI64IntegerAttr(static_cast<int64_t>(kind));
  return mlir::emitError(LocationOfKind::get(op->getLoc(), number, op->getContext()));
}

ErrorKind kindOf(const Diagnostic& error) {
  const auto location = dyn_cast<LocationOfKind>(LocationAttr(error.getLocation()));
  return location ? static_cast<ErrorKind>(location.getMetadata().getInt()) : ErrorKind::input;
}

} // namespace kiln::passes
