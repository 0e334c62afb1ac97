// See Access.h.
#include "codegen/family/Access.h"

#include "llvm/ADT/STLExtras.h"

namespace kiln::family {

std::int64_t knownMultiple(const Stride& stride, const TensorInfo& tensor) {
  return stride.coefficient * (stride.runTimeDimension < 0 ? 1 : tensor.strideMultiple);
}

static Stride strideOf(const BufferInfo& buffer, size_t dimension) {
  const TensorInfo& tensor = buffer.tensor;
  if (tensor.strides[dimension] >= 0)
    return {tensor.strides[dimension], {}, -1};
  if (!buffer.contiguous)
    return {1, {}, static_cast<int>(dimension)};
  Stride stride{1, {}, -1};
  for (size_t d = dimension + 1; d < tensor.shape.size(); ++d)
    if (tensor.shape[d].isStatic())
      stride.coefficient *= tensor.shape[d].size;
    else
      stride.symbols.push_back(tensor.shape[d].symbol);
  llvm::sort(stride.symbols);
  return stride;
}

Access makeAccess(const BufferInfo& buffer, llvm::ArrayRef<int> map, size_t leadingRank,
                  ir::PairsAttr pairs) {
  Access access{&buffer, llvm::SmallVector<Stride>(leadingRank), {}, pairs};
  for (auto [dimension, to] : llvm::enumerate(map)) {
    if (to < 0)
      continue;
    Stride stride = strideOf(buffer, dimension);
    (to == static_cast<int>(leadingRank) ? access.column : access.leading[to]) = stride;
  }
  return access;
}

Access makeAccess(const BufferInfo& buffer) {
  llvm::SmallVector<int> map;
  for (size_t d = 0; d < buffer.tensor.shape.size(); ++d)
    map.push_back(static_cast<int>(d));
  return makeAccess(buffer, map, map.size());
}

/// stride[d] == stride[d + 1] * size[d + 1], so that d and d + 1 are one dimension.
static bool walksAsOne(const Access& access, size_t d, const Extent& inner) {
  const Stride &outer = access.leading[d], &next = access.leading[d + 1];
  if (outer.coefficient == 0 && next.coefficient == 0)
    return true;
  Stride product = next; // of the same run-time stride, where there is one
  if (inner.isStatic())
    product.coefficient *= inner.size;
  else
    product.symbols.push_back(inner.symbol);
  llvm::sort(product.symbols);
  return product == outer;
}

llvm::SmallVector<std::pair<size_t, size_t>> mergeDimensions(llvm::ArrayRef<Extent> space,
                                                             llvm::ArrayRef<Access> accesses) {
  llvm::SmallVector<std::pair<size_t, size_t>> runs;
  for (size_t d = 0; d < space.size(); ++d) {
    bool joins = d > 0 && llvm::all_of(accesses, [&](const Access& access) {
                   return walksAsOne(access, d - 1, space[d]);
                 });
    if (joins)
      runs.back().second = d;
    else
      runs.push_back({d, d});
  }
  return runs;
}

bool isTransposed(const Access& access, std::int64_t elements) {
  const Stride one{1, {}, -1};
  return elements > 1 && !access.leading.empty() && !access.pairs && access.leading.back() == one &&
         access.column != one && access.column != Stride{};
}

bool hasPackedRows(const Access& access, llvm::ArrayRef<Extent> space, std::int64_t elements) {
  if (space.empty() || access.pairs || access.buffer->tensor.alignment % 16 != 0)
    return false;
  if (elements > 1 && access.column != Stride{1, {}, -1})
    return false;
  return mergeDimensions(space, access).size() == 1 &&
         access.leading.back() == Stride{elements, {}, -1};
}

bool hasDenseRows(const Access& access, llvm::ArrayRef<Extent> space, std::int64_t elements) {
  // A store into shared memory moves at least 4 bytes of a single value.
  const bool movable = elements > 1 || sizeInBytes(access.buffer->tensor.dtype) >= 4;
  return movable && hasPackedRows(access, space, elements);
}

std::int64_t widestAccess(const Access& access, std::int64_t vector) {
  if (access.column.coefficient != 1 || !access.column.isConstant())
    return 1;
  if (access.pairs && access.pairs.getKind() == ir::Pairing::half_split)
    vector = std::min(vector, access.pairs.getWidth() / 2 & -(access.pairs.getWidth() / 2));
  std::int64_t size = sizeInBytes(access.buffer->tensor.dtype);
  for (std::int64_t width = vector; width > 1; width /= 2) {
    bool aligned = access.buffer->tensor.alignment % std::min<std::int64_t>(width * size, 16) == 0;
    for (const Stride& stride : access.leading) {
      std::int64_t step = std::min(width, 16 / size); // one access moves at most 16 bytes
      aligned &= knownMultiple(stride, access.buffer->tensor) % step == 0;
    }
    if (aligned)
      return width;
  }
  return 1;
}

} // namespace kiln::family
