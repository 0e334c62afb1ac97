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

/// Gives an operation its place, the offset of its first byte.
void setPlace(SharedMemoryOp op, int64_t offset);
/// An error at the operations of a kernel that need shared memory and have been given no place.
llvm::LogicalResult havePlaces(KernelOp kernel);
/// The text of an operation's place in the dynamic shared memory.
std::string sharedAt(SharedMemoryOp op);
/// A line that holds what the device library takes of it, `bytes`, against what the operation asked
/// kiln-place for.
void assertBytes(Emitter& e, SharedMemoryOp op, const std::string& bytes);

} // namespace kiln::cu
