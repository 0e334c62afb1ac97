// See FunctionPlan.h.
#include "codegen/passes/FunctionPlan.h"

#include "codegen/backend/Symbols.h"

using namespace mlir;

namespace kiln::passes {

namespace {

class Planner {
 public:
  explicit Planner(func::FuncOp function) : function(function), names(function) {}

  FailureOr<std::unique_ptr<FunctionPlan>> run() {
    plan = std::make_unique<FunctionPlan>();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitError("a function to compile has a body of one block"), failure();
    for (Operation& op : function.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<ir::KernelOp>(op);
      if (!kernel)
        return op.emitError("stands outside a kernel; run kiln-fuse first"), failure();
      if (failed(addKernel(kernel)))
        return failure();
    }
    if (failed(addResults()))
      return failure();
    addBuffers();
    if (symbols.size() > maxSymbols)
      return function.emitError() << symbols.size()
                                  << " run-time sizes, none of which has to equal another; a "
                                  << "function has up to " << maxSymbols
                                  << ". Write fixed sizes, or make several functions of it",
             failure();
    return std::move(plan);
  }

 private:
  LogicalResult addKernel(ir::KernelOp op) {
    family::Refusal refusal;
    std::unique_ptr<family::Kernel> kernel = family::of(op).analyze(op, refusal);
    if (!kernel)
      return refuse(op, refusal);
    if (failed(kernel->unify(sizes)))
      return failure();
    uniteWithin(op);
    plan->kernels.push_back(std::move(kernel));
    return success();
  }

  void unite(Value a, Value b) {
    const auto one = dyn_cast<RankedTensorType>(a.getType());
    const auto other = dyn_cast<RankedTensorType>(b.getType());
    if (!one || !other || one.getRank() != other.getRank())
      return;
    for (int d = 0; d < one.getRank(); ++d)
      if (one.isDynamicDim(d) && other.isDynamicDim(d))
        sizes.unite({a, d}, {b, d});
  }
  /// Sizes that must agree by what the kernel computes, also those of tensors that it never reads,
  /// which a broadcast is like.
  void uniteWithin(ir::KernelOp op) {
    Block& block = op.getBody().front();
    for (auto [argument, input] : llvm::zip(block.getArguments(), op.getInputs()))
      unite(argument, input);
    for (Operation& inner : block.without_terminator()) {
      if (auto named = dyn_cast<ir::KilnOpInterface>(inner))
        if (Value source = named.shapeSource())
          unite(inner.getResult(0), source);
      if (inner.hasTrait<OpTrait::Elementwise>())
        for (Value operand : inner.getOperands())
          unite(operand, inner.getResult(0));
    }
    for (auto [result, inner] : llvm::zip(op.getResults(), block.getTerminator()->getOperands()))
      unite(result, inner);
  }

  static LogicalResult refuse(ir::KernelOp op, const family::Refusal& refusal) {
    auto error = emitError(refusal.where.value_or(op.getLoc()), refusal.reason);
    error.attachNote(op.getLoc()) << "in kernel '" << op.getName() << "'";
    return error;
  }

  Extent extent(Value value, int dimension) {
    int64_t size = ir::tensorType(value).getDimSize(dimension);
    if (!ShapedType::isDynamic(size))
      return {size, -1};
    auto [found, added] = symbols.try_emplace(sizes.find({value, dimension}), symbols.size());
    return {0, found->second};
  }

  LogicalResult addResults() {
    auto end = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (auto [i, value] : llvm::enumerate(end.getOperands())) {
      if (!value.getDefiningOp())
        return function.emitError("result ")
               << i << " is an argument; results are computed by kernels";
      if (!resultIndex.try_emplace(value, i).second)
        return function.emitError("result ")
               << i << " is the same value as result " << resultIndex[value] << "; return it once";
    }
    return success();
  }

  const family::BufferInfo* addBuffer(Value value, StringRef name, ir::LayoutAttr layout) {
    family::BufferInfo& buffer = plan->buffers.emplace_back(
        family::describeBuffer(value, layout, [&](int64_t d) { return extent(value, d); }));
    buffer.tensor.name = names.unique(name);
    return byValue[value] = &buffer;
  }

  void addBuffers() {
    plan->launch.function = function.getName().str();
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto layout = function.getArgAttrOfType<ir::LayoutAttr>(i, ir::kLayoutAttr);
      std::string fallback = "in" + std::to_string(i);
      TensorInfo& input = plan->launch.inputs.emplace_back(
          addBuffer(argument, family::nameAttr(function.getArgAttrDict(i), fallback), layout)
              ->tensor);
      const ir::NumbersTaken taken = ir::numbersTaken(argument);
      input.lowest = taken.lowest;
      if (taken.ascendWithin)
        input.ascendsTo = extent(taken.ascendWithin, taken.dimension);
    }
    plan->launch.outputs.resize(function.getNumResults());
    int intermediates = 0;
    for (const std::unique_ptr<family::Kernel>& kernel : plan->kernels) {
      for (Value value : kernel->op.getResults()) {
        auto found = resultIndex.find(value);
        if (found == resultIndex.end()) {
          std::string name = "between" + std::to_string(intermediates++);
          const TensorInfo& tensor = addBuffer(value, name, {})->tensor;
          plan->launch.workspaces.push_back(
              {tensor.name, tensor.dtype, 1, -1, SizeProduct{tensor.shape}});
          continue;
        }
        unsigned i = found->second;
        auto layout = function.getResultAttrOfType<ir::LayoutAttr>(i, ir::kLayoutAttr);
        std::string fallback = "out" + std::to_string(i);
        plan->launch.outputs[i] =
            addBuffer(value, family::nameAttr(function.getResultAttrDict(i), fallback), layout)
                ->tensor;
      }
    }
    for (size_t number = 0; number < plan->kernels.size(); ++number)
      bind(number);
  }

  void bind(size_t number) {
    family::Kernel& kernel = *plan->kernels[number];
    auto extentOf = [&](family::Dimension d) { return extent(d.first, d.second); };
    family::Binding binding{{}, {}, {}, extentOf};
    for (Value value : kernel.op.getInputs()) {
      binding.inputs.push_back(byValue.at(value));
      binding.older.push_back(isOlder(value, number));
    }
    for (Value value : kernel.op.getResults())
      binding.outputs.push_back(byValue.at(value));
    kernel.bind(binding);
  }

  /// Whether a kernel lies between the one that made `value` and this one. Arguments were made
  /// before the function's first kernel; before its predecessor too if they say so.
  bool isOlder(Value value, size_t number) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return number > 0 || function.getArgAttr(argument.getArgNumber(), ir::kOlderAttr) != nullptr;
    auto made = llvm::find_if(plan->kernels, [&](const std::unique_ptr<family::Kernel>& other) {
      return other->op == value.getDefiningOp();
    });
    return static_cast<size_t>(made - plan->kernels.begin()) + 1 < number;
  }

  func::FuncOp function;
  std::unique_ptr<FunctionPlan> plan;
  family::SizeClasses sizes;
  family::SizeClasses::Map<int> symbols; // numbers of run-time sizes
  llvm::DenseMap<Value, unsigned> resultIndex;
  llvm::DenseMap<Value, const family::BufferInfo*> byValue;
  family::BufferNames names;
};

} // namespace

FailureOr<std::unique_ptr<FunctionPlan>> planFunction(func::FuncOp function) {
  if (const family::FunctionFamily* whole = family::ofFunction(function))
    return whole->plan(function);
  return Planner(function).run();
}

} // namespace kiln::passes
