// Tensors of attention as tensor maps of (width, rows, inner heads, outer heads) show them, for
// products of warpgroups.
#pragma once

#include "codegen/families/attention/Attention.h"
#include "codegen/family/Buffers.h"

namespace kiln::attention {

/// `rows` and `swizzle`: of a tile, whose panels are `swizzle` bytes wide. Nothing where no such
/// map shows the tensor: its strides are not known to be multiples of 16 bytes, or its heads lie in
/// more than two of them.
std::optional<TensorMapInfo> tensorMapOf(const family::BufferInfo& buffer, int64_t rows,
                                         int64_t swizzle);
/// Of queries, keys or values: a panel is as wide as a row, from 32 to 128 bytes. Zeros follow rows
/// that are narrower.
std::optional<TensorMapInfo> tensorMapOf(const family::BufferInfo& buffer, int64_t rows);
/// Of a bias for all of whose places there is an element.
constexpr int64_t kBiasSwizzle = 128;
/// Rows of its map's box where a block holds more of them than a box may have.
constexpr int64_t kBiasBox = 64;

/// Whether they show query, key and value, and of a backward the output's gradient.
bool canBeMapped(const Program& program, llvm::ArrayRef<const family::BufferInfo*> inputs);
/// Whether one shows the bias, which has an element of 2 bytes for each query and key of a head.
bool isBiasMapped(const Program& program, llvm::ArrayRef<const family::BufferInfo*> inputs);

} // namespace kiln::attention
