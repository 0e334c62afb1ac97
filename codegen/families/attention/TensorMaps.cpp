// See TensorMaps.h.
#include "codegen/families/attention/TensorMaps.h"

#include "codegen/family/Access.h"

using namespace mlir;
using kiln::family::Access;
using kiln::family::Stride;

namespace kiln::attention {
namespace {

/// Whether a step is known to be a multiple of 16 bytes, and not 0: at run time, by its promise.
bool isStep(const Stride& stride, const TensorInfo& tensor) {
  const int64_t known = family::knownMultiple(stride, tensor);
  const bool isZero = known == 0 || (stride.runTimeDimension >= 0 && tensor.strideMultiple == 1);
  return !isZero && known * static_cast<int64_t>(sizeInBytes(tensor.dtype)) % 16 == 0;
}

SizeProduct productOf(const Stride& stride) {
  SizeProduct product{{Extent{stride.coefficient, -1}}};
  for (int symbol : stride.symbols)
    product.factors.push_back({0, symbol});
  return product;
}

} // namespace

std::optional<TensorMapInfo> tensorMapOf(const family::BufferInfo& buffer, int64_t rows,
                                         int64_t swizzle) {
  const auto& shape = buffer.tensor.shape;
  const size_t rank = shape.size();
  const Access access = family::makeAccess(buffer);
  const int64_t bytes = static_cast<int64_t>(sizeInBytes(buffer.tensor.dtype));
  if (buffer.tensor.alignment % 16 != 0 || access.leading[rank - 1] != Stride{1, {}, -1} ||
      !isStep(access.leading[rank - 2], buffer.tensor))
    return {};
  TensorMapInfo map{buffer.tensor.dtype, static_cast<int>(swizzle), 0, {}};
  auto& dimensions = map.dimensions;
  dimensions.push_back({{{shape[rank - 1]}}, {}, -1, swizzle / bytes});
  const auto add = [&](SizeProduct size, const Stride& stride, int64_t box) {
    dimensions.push_back({std::move(size), productOf(stride), stride.runTimeDimension, box});
  };
  add({{shape[rank - 2]}}, access.leading[rank - 2], rows);
  Access heads = access;
  heads.leading.truncate(rank - 2);
  const SmallVector<Extent> space(ArrayRef<Extent>(shape).drop_back(2));
  const auto runs = family::mergeDimensions(space, heads);
  for (auto [first, last] : llvm::reverse(runs)) {
    if (!isStep(heads.leading[last], buffer.tensor))
      return {};
    add({std::vector<Extent>(space.begin() + first, space.begin() + last + 1)}, heads.leading[last],
        1);
  }
  while (dimensions.size() < 4)
    dimensions.push_back({{{Extent{1, -1}}}, {{Extent{8, -1}}}, -1, 1});
  return dimensions.size() == 4 ? std::optional(map) : std::nullopt;
}

std::optional<TensorMapInfo> tensorMapOf(const family::BufferInfo& buffer, int64_t rows) {
  const int64_t width = buffer.tensor.shape.back().size;
  return tensorMapOf(buffer, rows, width % 64 == 0 ? 128 : std::max<int64_t>(2 * width, 32));
}

bool canBeMapped(const Program& program, ArrayRef<const family::BufferInfo*> inputs) {
  SmallVector<Value> tensors{program.form.query, program.form.key, program.form.value};
  if (program.outputGradient)
    tensors.push_back(program.outputGradient);
  return llvm::all_of(tensors, [&](Value argument) {
    const auto& buffer = *inputs[cast<BlockArgument>(argument).getArgNumber()];
    return tensorMapOf(buffer, 64).has_value();
  });
}

bool isBiasMapped(const Program& program, ArrayRef<const family::BufferInfo*> inputs) {
  if (!program.form.bias)
    return false;
  const auto bufferOf = [&](Value argument) -> const family::BufferInfo& {
    return *inputs[cast<BlockArgument>(argument).getArgNumber()];
  };
  const family::BufferInfo& bias = bufferOf(program.form.bias);
  const auto rowsOf = [](const family::BufferInfo& buffer) {
    return buffer.tensor.shape.end()[-2];
  };
  return sizeInBytes(bias.tensor.dtype) == 2 &&
         rowsOf(bias) == rowsOf(bufferOf(program.form.query)) &&
         bias.tensor.shape.back() == rowsOf(bufferOf(program.form.key)) &&
         tensorMapOf(bias, 64, kBiasSwizzle).has_value();
}

} // namespace kiln::attention
