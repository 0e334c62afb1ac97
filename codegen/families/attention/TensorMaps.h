// Tensors of attention as tensor maps of (width, rows, inner heads, outer heads) show them, for
// products of warpgroups.
#pragma once

#include "codegen/families/attention/Attention.h"
#include "codegen/family/Buffers.h"

namespace kiln::attention {

/// `rows`: of a tile. Nothing where no such map shows the tensor: its strides are not known to be
/// multiples of 16 bytes, or its heads lie in more than two of them.
std::optional<TensorMapInfo> tensorMapOf(const family::BufferInfo& buffer, int64_t rows);

/// Whether they show query, key and value.
bool canBeMapped(const Program& program, llvm::ArrayRef<const family::BufferInfo*> inputs);

} // namespace kiln::attention
