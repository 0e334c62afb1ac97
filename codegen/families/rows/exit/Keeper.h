// What the exit operations of rows share.
#pragma once

#include "codegen/exit/Exit.h"
#include "codegen/families/rows/Schedule.h"

namespace kiln::rows {

/// Of a kernel of rows.
Schedule scheduleOf(cu::KernelOp kernel);

/// Whether its tiles come through a ring and begin and end anywhere.
bool isLoose(cu::KernelOp kernel);

/// Declares what keeps a tile, in registers or at its place in shared memory.
void keep(Emitter& e, mlir::Value fragment, ir::Keep keep);

} // namespace kiln::rows
