// The arguments of a row kernel, the maps of its rows, and names. See Lowering.h.
#include "codegen/exit/Maps.h"
#include "codegen/families/rows/Lowering.h"

using namespace mlir;

namespace kiln::rows {

const BufferInfo* Lowering::bufferOf(const Node* input) const {
  return context.inputs[cast<BlockArgument>(input->value).getArgNumber()];
}

const BufferInfo* Lowering::tableOf(const Node* gather) const {
  auto op = cast<ir::GatherOp>(gather->op());
  return context.inputs[cast<BlockArgument>(op.getTable()).getArgNumber()];
}

/// Elements moved at once. Vectors of memory are aligned wherever rows begin.
int64_t Lowering::accessWidth(const Access& access) const {
  int64_t vector = schedule.vector;
  return program.width() % vector != 0 ? vector : widestAccess(access, vector);
}

bool Lowering::isOlder(const Node* input) const {
  return schedule.launch == Launch::olderFirst &&
         context.older[cast<BlockArgument>(input->value).getArgNumber()];
}

Value Lowering::pointer(const BufferInfo& buffer, Type element) {
  return entry->pointer(buffer.tensor.name, element);
}

/// From where an input is read.
Value Lowering::source(const Access& access, Type element) {
  Value from = pointer(*access.buffer, element);
  if (!access.pairs)
    return from;
  for (Operation* user : from.getUsers())
    if (auto known = dyn_cast<cu::PairedOp>(user); known && known.getPairs() == access.pairs)
      return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(mapsEnd);
  return builder.create<cu::PairedOp>(named(access.buffer->tensor.name + "_pairs"), from.getType(),
                                      from, access.pairs);
}

Value Lowering::product(KernelArgument::Kind kind, ArrayRef<Extent> factors,
                        const std::string& name) {
  KernelArgument what;
  what.kind = kind;
  what.product.factors.assign(factors.begin(), factors.end());
  return entry->argument(what, builder.getI64Type(), name);
}

Value Lowering::strideArgument(const Access& access, const Stride& stride) {
  assert((stride.runTimeDimension < 0 || stride.coefficient == 1) &&
         "rows do not split a dimension");
  const auto [what, label] = cu::argumentOf(access, stride);
  return entry->argument(what, builder.getI64Type(), label);
}

/// Sizes and strides of the merged leading dimensions, one row map for each distinct text.
Value Lowering::rowMap(const Access& access, bool withColumn) {
  SmallVector<int64_t> sizes, strides;
  SmallVector<Value> runTimeSizes, runTimeStrides;
  for (auto [i, run] : llvm::enumerate(runs)) {
    ArrayRef<Extent> extents = ArrayRef(context.space).slice(run.first, run.second + 1 - run.first);
    bool constant = llvm::all_of(extents, [](const Extent& e) { return e.isStatic(); });
    int64_t size = 1;
    for (const Extent& extent : extents)
      size *= extent.size;
    if (i == 0 || constant) {
      sizes.push_back(i == 0 ? 0 : size);
    } else {
      sizes.push_back(-1);
      runTimeSizes.push_back(
          product(KernelArgument::Kind::size, extents, "size" + std::to_string(run.first)));
    }
    const Stride& stride = access.leading[run.second];
    strides.push_back(stride.isConstant() ? stride.coefficient : -1);
    if (!stride.isConstant())
      runTimeStrides.push_back(strideArgument(access, stride));
  }
  if (runs.empty()) {
    sizes.push_back(0);
    strides.push_back(0);
  }
  int64_t column = withColumn ? access.column.coefficient : 1;
  if (withColumn && !access.column.isConstant()) {
    column = -1;
    runTimeStrides.push_back(strideArgument(access, access.column));
  }
  for (auto& [key, value] : maps)
    if (key.getSizes() == ArrayRef(sizes) && key.getStrides() == ArrayRef(strides) &&
        static_cast<int64_t>(key.getColumnStride()) == column &&
        llvm::equal(key.getRunTimeSizes(), runTimeSizes) &&
        llvm::equal(key.getRunTimeStrides(), runTimeStrides))
      return value;
  std::string name = "rows";
  for (int64_t stride : strides)
    name += "_" + (stride < 0 ? access.buffer->tensor.name : std::to_string(stride));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(mapsEnd);
  auto op = builder.create<cu::RowMapOp>(named(name), cu::MapType::get(builder.getContext()), sizes,
                                         strides, column, runTimeSizes, runTimeStrides);
  maps.push_back({op, op.getMap()});
  return op.getMap();
}

Location Lowering::named(const std::string& name) {
  return named(name, location);
}

Location Lowering::named(const std::string& name, Location at) {
  return NameLoc::get(builder.getStringAttr(name), at);
}

/// The name that the source gives a value, or one made from `fallback`.
std::string Lowering::nameOf(const Node* node, StringRef fallback) {
  if (node->kind == Node::Kind::input)
    return bufferOf(node)->tensor.name;
  if (auto loc = dyn_cast<NameLoc>(node->value.getLoc()))
    return loc.getName().str();
  return fallback.str();
}

Type Lowering::resultElement(const Output& output) {
  DType dtype = context.outputs[output.index]->tensor.dtype;
  MLIRContext* c = builder.getContext();
  switch (dtype) {
  case DType::bf16:
    return BFloat16Type::get(c);
  case DType::f16:
    return Float16Type::get(c);
  case DType::i1:
    return builder.getI1Type();
  case DType::i32:
    return builder.getI32Type();
  case DType::i64:
    return builder.getI64Type();
  default:
    return builder.getF32Type();
  }
}

} // namespace kiln::rows
