// The exit dialect `cu`: operations that mirror codegen/device/*.cuh one to one.
#pragma once

#include "codegen/emit/Emitter.h"
#include "dialect/Kiln.h"

namespace kiln::cu {

/// What shared memory is used for, in the order in which kiln-place gives out places.
enum class SharedUse { columns, stages, tile, exchange, results, epilogue };

} // namespace kiln::cu

#include "codegen/exit/Dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "codegen/exit/Interfaces.h.inc"
#include "codegen/exit/Types.h.inc"
#define GET_OP_CLASSES
#include "codegen/exit/Ops.h.inc"

namespace kiln::cu {

using ir::kLaunchAttr;

/// The text of a place in the dynamic shared memory.
std::string sharedAt(int64_t offset);

} // namespace kiln::cu
