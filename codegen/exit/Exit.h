// The exit dialect `cu`: operations that mirror codegen/device/*.cuh one to one.
#pragma once

#include "codegen/emit/Emitter.h"
#include "codegen/families/rows/Schedule.h"
#include "dialect/Kiln.h"

#include "codegen/exit/Dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "codegen/exit/Interfaces.h.inc"
#include "codegen/exit/Types.h.inc"
#define GET_OP_CLASSES
#include "codegen/exit/Ops.h.inc"

namespace kiln::cu {

using ir::kLaunchAttr;

/// Of a kernel of rows.
rows::Schedule scheduleOf(KernelOp kernel);
/// The text of a place in the dynamic shared memory.
std::string sharedAt(int64_t offset);
/// Declares what keeps a tile, in registers or in shared memory at `scratch`.
std::string keeper(Emitter& e, mlir::Value fragment, ir::Keep keep, int64_t scratch);

} // namespace kiln::cu
