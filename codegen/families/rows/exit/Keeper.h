// What the exit operations of rows share.
#pragma once

#include "codegen/exit/Exit.h"
#include "codegen/families/rows/Schedule.h"

namespace kiln::rows {

/// Of a kernel of rows.
Schedule scheduleOf(cu::KernelOp kernel);

/// Declares what keeps a tile, in registers or in shared memory at `scratch`.
std::string keeper(Emitter& e, mlir::Value fragment, ir::Keep keep, int64_t scratch);

} // namespace kiln::rows
