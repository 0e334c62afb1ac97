// Named operations become elementary ones: scalar math in fp32, reductions, broadcasts, indices,
// random numbers, gathers, picks. What families execute that know no op by name.
#pragma once

#include "dialect/Kiln.h"

#include "mlir/IR/OwningOpRef.h"

namespace kiln::family {

/// Replaces the named operations in the block.
void decomposeNamedOps(mlir::Block& block);

/// The copy of a kernel in elementary operations, with equal ones merged.
mlir::OwningOpRef<ir::KernelOp> elementaryCopy(ir::KernelOp kernel);

} // namespace kiln::family
