// See Maps.h.
#include "codegen/exit/Maps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kiln::cu {

int64_t Walk::count() const {
  int64_t product = 1;
  for (const Extent& extent : space)
    product = extent.isStatic() && product >= 0 ? product * extent.size : -1;
  return product;
}

static Value constant(Entry& entry, int64_t value) {
  return entry.builder.create<arith::ConstantOp>(entry.location,
                                                 entry.builder.getI64IntegerAttr(value));
}

std::pair<KernelArgument, std::string> argumentOf(const family::Access& access,
                                                  const family::Stride& stride) {
  KernelArgument what;
  if (stride.runTimeDimension >= 0) {
    what.kind = KernelArgument::Kind::stride;
    what.name = access.buffer->tensor.name;
    what.dimension = stride.runTimeDimension;
    return {what, what.name + "_stride" + std::to_string(what.dimension)};
  }
  what.kind = KernelArgument::Kind::size;
  what.product.factors.push_back(Extent{stride.coefficient, -1});
  std::string label = "step";
  for (int symbol : stride.symbols) {
    what.product.factors.push_back(Extent{0, symbol});
    label += "_d" + std::to_string(symbol);
  }
  return {what, label + "_" + std::to_string(stride.coefficient)};
}

static Value strideArgument(Entry& entry, const family::Access& access,
                            const family::Stride& stride) {
  const auto [what, label] = argumentOf(access, stride);
  Value given = entry.argument(what, entry.builder.getI64Type(), label);
  if (stride.runTimeDimension < 0 || stride.coefficient == 1)
    return given;
  return entry.builder.create<arith::MulIOp>(entry.location, given,
                                             constant(entry, stride.coefficient));
}

Value rowMap(Entry& entry, const Walk& walk, const family::Access& access,
             const std::string& name) {
  SmallVector<int64_t> sizes, strides;
  SmallVector<Value> runTimeSizes, runTimeStrides;
  for (auto [first, last] : walk.runs) {
    Walk run{SmallVector<Extent>(ArrayRef(walk.space).slice(first, last + 1 - first)), {}};
    sizes.push_back(first == 0 ? 0 : run.count());
    if (sizes.back() < 0)
      runTimeSizes.push_back(
          entry.size(KernelArgument::Kind::size, run.space, "size" + std::to_string(first)));
    const family::Stride& stride = access.leading[last];
    strides.push_back(stride.isConstant() ? stride.coefficient : -1);
    if (!stride.isConstant())
      runTimeStrides.push_back(strideArgument(entry, access, stride));
  }
  if (walk.runs.empty())
    sizes = strides = {0};
  const bool isConstant = access.column.isConstant();
  if (!isConstant)
    runTimeStrides.push_back(strideArgument(entry, access, access.column));
  std::string label = "rows";
  for (int64_t stride : strides)
    label += "_" + (stride < 0 ? name : std::to_string(stride));
  OpBuilder& builder = entry.builder;
  return builder.create<RowMapOp>(NameLoc::get(builder.getStringAttr(label), entry.location),
                                  MapType::get(builder.getContext()), sizes, strides,
                                  isConstant ? access.column.coefficient : -1, runTimeSizes,
                                  runTimeStrides);
}

Value stride(Entry& entry, const family::Access& access, const family::Stride& stride) {
  if (!stride.isConstant())
    return strideArgument(entry, access, stride);
  return constant(entry, stride.coefficient);
}

} // namespace kiln::cu
