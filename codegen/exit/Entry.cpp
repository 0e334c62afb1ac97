// See Entry.h.
#include "codegen/exit/Entry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kiln::cu {

Entry::Entry(OpBuilder& builder, Location location, const std::string& name, int64_t threads,
             int64_t blocks, ir::ScheduleAttr schedule, StringRef header)
    : builder(builder), location(location) {
  kernel = builder.create<KernelOp>(location, name, builder.getStrArrayAttr({}), threads, blocks, 0,
                                    schedule, 0, header);
  block = &kernel.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(block);
  launch.name = name;
  launch.threads = static_cast<int>(threads);
  launch.promisedBlocks = static_cast<int>(blocks);
}

Value Entry::argument(const KernelArgument& what, Type type, const std::string& name) {
  for (auto [i, known] : llvm::enumerate(launch.arguments))
    if (names[i] == name && known == what) // a tensor may have the name of a size
      return block->getArgument(i);
  launch.arguments.push_back(what);
  names.push_back(name);
  return block->addArgument(type, location);
}

Value Entry::pointer(const std::string& buffer, Type element) {
  KernelArgument what;
  what.name = buffer;
  return argument(what, PointerType::get(builder.getContext(), element), buffer);
}

Value Entry::tensorMap(const std::string& buffer, TensorMapInfo map) {
  KernelArgument what;
  what.kind = KernelArgument::Kind::tensorMap;
  what.name = buffer;
  what.map = static_cast<int>(launch.tensorMaps.size());
  launch.tensorMaps.push_back(std::move(map));
  return argument(what, TensorMapType::get(builder.getContext()), buffer + "_map");
}

Value Entry::size(KernelArgument::Kind kind, ArrayRef<Extent> factors, const std::string& name) {
  int64_t constant = 1;
  for (const Extent& factor : factors)
    constant *= factor.size;
  if (llvm::all_of(factors, [](const Extent& factor) { return factor.isStatic(); }))
    return builder.create<arith::ConstantOp>(location, builder.getI64IntegerAttr(constant));
  KernelArgument what;
  what.kind = kind;
  what.product.factors.assign(factors.begin(), factors.end());
  return argument(what, builder.getI64Type(), name);
}

void Entry::waitThenRelease(bool programmatic) {
  launch.programmatic = programmatic;
  if (!programmatic)
    return;
  builder.create<WaitOp>(location);
  builder.create<ReleaseOp>(location);
}

void Entry::finish(LaunchPlan& plan) {
  SmallVector<StringRef> texts(names.begin(), names.end());
  kernel.setArgumentsAttr(builder.getStrArrayAttr(texts));
  plan.kernels.push_back(std::move(launch));
  builder.setInsertionPointAfter(kernel);
}

} // namespace kiln::cu
