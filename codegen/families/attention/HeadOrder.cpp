// See HeadOrder.h.
#include "codegen/families/attention/HeadOrder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using kiln::family::Access;
using kiln::family::Stride;

namespace kiln::attention {

static bool isOne(const Extent& extent) {
  return extent.isStatic() && extent.size == 1;
}

HeadOrder::HeadOrder(const Program& program, ArrayRef<const family::BufferInfo*> inputs,
                     bool byBias)
    : keyHeads(program.keyHeads()), groupSize(program.heads() / program.keyHeads()) {
  const auto shapeOf = [&](Value argument) -> const std::vector<Extent>& {
    return inputs[cast<BlockArgument>(argument).getArgNumber()]->tensor.shape;
  };
  const std::vector<Extent>& query = shapeOf(program.form.query);
  const size_t heads = query.size() - 3;
  for (size_t d = 0; d < heads; ++d)
    dimensions.push_back({query[d], false});
  dimensions.push_back({{keyHeads, -1}, false});
  dimensions.push_back({{groupSize, -1}, false});
  for (size_t d = 0; d < dimensions.size(); ++d)
    order.push_back(d);
  if (!byBias)
    return;
  for (size_t d = 0; d < dimensions.size(); ++d)
    dimensions[d].isShared =
        !program.form.bias || isOne(shapeOf(program.form.bias)[std::min(d, heads)]);
  llvm::stable_sort(
      order, [&](size_t a, size_t b) { return !dimensions[a].isShared && dimensions[b].isShared; });
}

template <class Is> HeadOrder::Dimensions HeadOrder::where(Is is) const {
  Dimensions found;
  llvm::copy_if(order, std::back_inserter(found), is);
  return found;
}
HeadOrder::Dimensions HeadOrder::ofKeys() const {
  return where([&](size_t d) { return d + 1 != dimensions.size(); });
}
HeadOrder::Dimensions HeadOrder::own() const {
  return where([&](size_t d) { return !dimensions[d].isShared; });
}
HeadOrder::Dimensions HeadOrder::shared() const {
  return where([&](size_t d) { return dimensions[d].isShared; });
}

SmallVector<Extent> HeadOrder::sizes(ArrayRef<size_t> chosen) const {
  SmallVector<Extent> sizes;
  for (size_t d : chosen)
    sizes.push_back(dimensions[d].extent);
  return sizes;
}

Access HeadOrder::access(const family::BufferInfo& buffer, ArrayRef<size_t> chosen) const {
  const size_t heads = dimensions.size() - 2;
  const bool ofKeys = buffer.tensor.shape[heads].size == keyHeads && groupSize > 1;
  SmallVector<Stride> byDimension;
  for (size_t d = 0; d <= heads; ++d)
    byDimension.push_back(strideAlong(buffer, d));
  return access(buffer, std::move(byDimension), ofKeys, chosen);
}

Access HeadOrder::access(const family::BufferInfo& buffer, ArrayRef<Stride> ofHeads) const {
  return access(buffer, SmallVector<Stride>(ofHeads), false, order);
}

Access HeadOrder::access(const family::BufferInfo& buffer, SmallVector<Stride> byDimension,
                         bool ofKeys, ArrayRef<size_t> chosen) const {
  Stride ofGroup = ofKeys ? Stride{} : byDimension.back();
  if (!ofKeys)
    byDimension.back().coefficient *= groupSize;
  byDimension.push_back(ofGroup);
  Access access{&buffer, {}, {1, {}, -1}, {}};
  for (size_t d : chosen)
    access.leading.push_back(byDimension[d]);
  return access;
}

Access HeadOrder::numbering(const family::BufferInfo& query) const {
  Access access{&query, {}, {1, {}, -1}, {}};
  for (size_t d : order) {
    Stride stride{1, {}, -1};
    for (size_t inner = d + 1; inner < dimensions.size(); ++inner)
      if (const Extent& extent = dimensions[inner].extent; extent.isStatic())
        stride.coefficient *= extent.size;
      else
        stride.symbols.push_back(extent.symbol);
    llvm::sort(stride.symbols);
    access.leading.push_back(stride);
  }
  return access;
}

Stride strideAlong(const family::BufferInfo& buffer, size_t d) {
  return isOne(buffer.tensor.shape[d]) ? Stride{} : family::makeAccess(buffer).leading[d];
}

} // namespace kiln::attention
