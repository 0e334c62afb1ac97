// See FunctionPlan.h.
#include "codegen/passes/FunctionPlan.h"

#include "codegen/backend/Symbols.h"
#include "codegen/segments/Partition.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

#include <map>

using namespace mlir;

namespace kiln::passes {

DType dtypeOf(Type element) {
  if (element.isBF16())
    return DType::bf16;
  if (element.isF16())
    return DType::f16;
  if (element.isF64())
    return DType::f64;
  if (element.isF32())
    return DType::f32;
  return element.isInteger(1) ? DType::i1 : element.isInteger(32) ? DType::i32 : DType::i64;
}

double bytesOf(Value value) {
  auto type = ir::tensorType(value);
  double bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 65536.0 : static_cast<double>(size);
  return bytes;
}

rows::BufferInfo describeBuffer(Value value, ir::LayoutAttr layout,
                                llvm::function_ref<Extent(int64_t)> extent) {
  rows::BufferInfo buffer;
  auto type = ir::tensorType(value);
  buffer.tensor.dtype = dtypeOf(type.getElementType());
  for (int64_t d = 0; d < type.getRank(); ++d)
    buffer.tensor.shape.push_back(extent(d));
  buffer.contiguous = !layout || layout.getStrides().empty();
  if (layout)
    buffer.tensor.alignment = layout.getAlign();
  else if (type.getRank() == 0) // may lie anywhere, beside others
    buffer.tensor.alignment = sizeInBytes(buffer.tensor.dtype);
  if (buffer.contiguous)
    rows::makeContiguous(buffer.tensor);
  else
    buffer.tensor.strides.assign(layout.getStrides().begin(), layout.getStrides().end());
  return buffer;
}

BufferNames::BufferNames(func::FuncOp function) {
  for (auto kernel : function.getOps<ir::KernelOp>())
    given.insert(entryName(kernel.getName()) + "_partials");
}

std::string BufferNames::unique(StringRef wanted) {
  std::string name = wanted.str();
  for (int n = 1; !given.insert(name).second; ++n)
    name = wanted.str() + "_" + std::to_string(n);
  return name;
}

std::string entryName(StringRef kernel) {
  std::string entry = "kiln_" + kernel.str();
  for (char& c : entry)
    c = llvm::isAlnum(c) ? c : '_';
  return entry;
}

StringRef nameAttr(DictionaryAttr attributes, StringRef fallback) {
  auto name = attributes ? attributes.getAs<StringAttr>(ir::kNameAttr) : StringAttr();
  return name ? name.getValue() : fallback;
}

rows::Schedule scheduleOf(ir::ScheduleAttr a) {
  return {a.getLanes(),
          a.getVector(),
          a.getRows(),
          a.getThreads(),
          a.getBlocks(),
          static_cast<rows::Grid>(a.getGrid()),
          static_cast<rows::Keep>(a.getKeep()),
          static_cast<rows::Launch>(a.getLaunch()),
          static_cast<rows::Columns>(a.getColumns()),
          a.getStages(),
          a.getCluster()};
}
ir::ScheduleAttr scheduleAttr(MLIRContext* context, const rows::Schedule& s) {
  return ir::ScheduleAttr::get(context, s.lanes, s.vector, s.rows, s.threads, s.blocks,
                               static_cast<ir::Grid>(s.grid), static_cast<ir::Keep>(s.keep),
                               static_cast<ir::LaunchMode>(s.launch),
                               static_cast<ir::Columns>(s.columns), s.stages, s.cluster);
}

OwningOpRef<ir::KernelOp> elementaryCopy(ir::KernelOp kernel) {
  OwningOpRef<ir::KernelOp> copy(kernel.clone());
  copy->getInputsMutable().clear(); // the copy may outlive what feeds the kernel
  rows::decomposeNamedOps(copy->getBody().front());
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(*copy);
  eliminateCommonSubExpressions(rewriter, dominance, *copy);
  return copy;
}

namespace {

class Planner {
 public:
  explicit Planner(func::FuncOp function) : function(function), names(function) {}

  FailureOr<std::unique_ptr<FunctionPlan>> run() {
    plan = std::make_unique<FunctionPlan>();
    if (segments::isOverLists(function))
      return function.emitError("is over lists of tensors, not over rows: it has one default "
                                "schedule and no search space"),
             failure();
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
    PlannedKernel kernel{op, elementaryCopy(op), nullptr, {}, {}, {}, {}, {}};
    Block& body = kernel.body->getBody().front();
    rows::Refusal refusal;
    kernel.program = rows::analyze(body, refusal);
    if (!kernel.program) {
      std::string reason;
      kernel.sum = sums::analyze(body, reason);
      if (!kernel.sum)
        return refuse(op, refusal);
      if (op.getSchedule())
        return op.emitError("a sum of rows takes no schedule; leave it out"), failure();
      unifySums(kernel);
    } else if (failed(unifySizes(kernel))) {
      return failure();
    }
    plan->kernels.push_back(std::move(kernel));
    return success();
  }

  static LogicalResult refuse(ir::KernelOp op, const rows::Refusal& refusal) {
    Location where = refusal.where ? refusal.where->getLoc() : op.getLoc();
    auto error = emitError(where, refusal.reason);
    error.attachNote(op.getLoc()) << "in kernel '" << op.getName() << "'";
    return error;
  }

  // Dimensions that meet in one iteration space have one size.
  using Dimension = std::pair<Value, int>;
  Dimension find(Dimension d) {
    while (parent.contains(d) && parent[d] != d)
      d = parent[d];
    return d;
  }
  void unite(Dimension a, Dimension b) {
    a = find(a), b = find(b);
    if (a != b)
      parent[a] = b;
  }
  LogicalResult unifySizes(PlannedKernel& kernel) {
    llvm::SmallVector<std::optional<Dimension>> at(kernel.program->rank());
    auto meet = [&](Value value, int dimension, int to) {
      if (to < 0 || to >= static_cast<int>(at.size()))
        return;
      if (at[to])
        unite({value, dimension}, *at[to]);
      else
        at[to] = {value, dimension};
    };
    for (auto& node : kernel.program->nodes) {
      Value shape = node->value; // or the tensor whose sizes it has
      if (auto named = shape.getDefiningOp<ir::KilnOpInterface>())
        shape = named.shapeSource();
      auto argument = dyn_cast_if_present<BlockArgument>(shape);
      for (auto [d, to] : llvm::enumerate(node->map))
        if (argument && ir::tensorType(node->value).isDynamicDim(d))
          meet(kernel.op.getInputs()[argument.getArgNumber()], d, to);
    }
    for (const rows::Output& output : kernel.program->outputs)
      if (output.kind == rows::Output::Kind::full || output.kind == rows::Output::Kind::row)
        for (auto [d, to] : llvm::enumerate(output.map))
          if (Value result = kernel.op.getResult(output.index);
              ir::tensorType(result).isDynamicDim(d))
            meet(result, d, to);
    takeLentSizes(kernel, at);
    for (auto [d, dimension] : llvm::enumerate(at))
      if (ShapedType::isDynamic(kernel.program->space[d]) && !dimension)
        return kernel.op.emitError("the size of dimension ")
               << d << " is that of no tensor that the kernel reads or writes";
    spaceOf[kernel.op] = std::move(at);
    int64_t rows = 1;
    for (int64_t size : ArrayRef(kernel.program->space).drop_back())
      rows *= ShapedType::isDynamic(size) ? 1 : size; // tensors have up to 2^56 elements
    if (rows > maxRows)
      return kernel.op.emitError("has ")
             << rows << " rows, a kernel counts up to " << maxRows << "; split the batch";
    return success();
  }
  /// Sizes that no tensor has which the kernel reads or writes: of rows that are all the same and
  /// are added up, only an input knows that a broadcast is like.
  static void takeLentSizes(PlannedKernel& kernel,
                            llvm::SmallVectorImpl<std::optional<Dimension>>& at) {
    Block& body = kernel.body->getBody().front();
    if (!body.getOps<ir::TransposeOp>().empty())
      return; // whose dimensions are others
    for (auto broadcast : body.getOps<ir::BroadcastOp>()) {
      auto like = dyn_cast_if_present<BlockArgument>(broadcast.getLike());
      const auto rank = like ? static_cast<size_t>(ir::tensorType(like).getRank()) : 0;
      if (rank != at.size() && rank != at.size() + 1) // neither values of rows nor rows
        continue;
      for (auto [d, dimension] : llvm::enumerate(at))
        if (!dimension && ir::tensorType(like).isDynamicDim(d))
          dimension = {kernel.op.getInputs()[like.getArgNumber()], static_cast<int>(d)};
    }
  }
  /// What is kept of a sum of rows has the sizes that it had; segments are as many as their pattern
  /// has, and indices as many as rows.
  void unifySums(PlannedKernel& kernel) {
    const sums::RowSum& sum = *kernel.sum;
    Value rows = kernel.op.getInputs()[sum.rows.getArgNumber()];
    int to = 0;
    if (sum.like)
      unite({kernel.op.getInputs()[sum.like.getArgNumber()], 0}, {kernel.op.getResult(0), 0});
    for (size_t d = 0; sum.index && d + 1 < sum.summed.size(); ++d)
      unite({rows, static_cast<int>(d)},
            {kernel.op.getInputs()[sum.index.getArgNumber()], static_cast<int>(d)});
    if (sum.index)
      return;
    for (auto [d, summed] : llvm::enumerate(kernel.sum->summed))
      if (!summed)
        unite({rows, static_cast<int>(d)}, {kernel.op.getResult(0), to++});
  }
  Extent extent(Value value, int dimension) {
    int64_t size = ir::tensorType(value).getDimSize(dimension);
    if (!ShapedType::isDynamic(size))
      return {size, -1};
    auto [found, added] = symbols.try_emplace(find({value, dimension}), symbols.size());
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

  const rows::BufferInfo* addBuffer(Value value, StringRef name, ir::LayoutAttr layout) {
    rows::BufferInfo& buffer = plan->buffers.emplace_back(
        describeBuffer(value, layout, [&](int64_t d) { return extent(value, d); }));
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
          addBuffer(argument, nameAttr(function.getArgAttrDict(i), fallback), layout)->tensor);
      input.nonNegative = ir::isReadAsNonNegative(argument);
    }
    plan->launch.outputs.resize(function.getNumResults());
    int intermediates = 0;
    for (PlannedKernel& kernel : plan->kernels) {
      for (Value value : kernel.op.getResults()) {
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
            addBuffer(value, nameAttr(function.getResultAttrDict(i), fallback), layout)->tensor;
      }
    }
    for (PlannedKernel& kernel : plan->kernels) {
      for (Value value : kernel.op.getInputs()) {
        kernel.inputs.push_back(byValue.at(value));
        kernel.older.push_back(isOlder(value, kernel));
      }
      for (Value value : kernel.op.getResults())
        kernel.outputs.push_back(byValue.at(value));
      for (auto [d, dimension] : llvm::enumerate(spaceOf[kernel.op])) {
        int64_t size = kernel.program->space[d];
        bool fixed = !ShapedType::isDynamic(size);
        kernel.space.push_back(fixed ? Extent{size, -1}
                                     : extent(dimension->first, dimension->second));
      }
    }
  }

  /// Whether a kernel lies between the one that made `value` and this one. Arguments were made
  /// before the function's first kernel; before its predecessor too if they say so.
  bool isOlder(Value value, const PlannedKernel& kernel) {
    const PlannedKernel* first = plan->kernels.data();
    if (auto argument = dyn_cast<BlockArgument>(value))
      return &kernel != first ||
             function.getArgAttr(argument.getArgNumber(), ir::kOlderAttr) != nullptr;
    auto made = llvm::find_if(plan->kernels, [&](const PlannedKernel& other) {
      return other.op == value.getDefiningOp();
    });
    return &*made + 1 < &kernel;
  }

  func::FuncOp function;
  std::unique_ptr<FunctionPlan> plan;
  std::map<Dimension, Dimension, bool (*)(const Dimension&, const Dimension&)> parent{less};
  std::map<Dimension, int, bool (*)(const Dimension&, const Dimension&)> symbols{less};
  llvm::DenseMap<Operation*, llvm::SmallVector<std::optional<Dimension>>> spaceOf;
  llvm::DenseMap<Value, unsigned> resultIndex;
  llvm::DenseMap<Value, const rows::BufferInfo*> byValue;
  BufferNames names;

  static bool less(const Dimension& a, const Dimension& b) {
    return std::make_pair(a.first.getAsOpaquePointer(), a.second) <
           std::make_pair(b.first.getAsOpaquePointer(), b.second);
  }
};

} // namespace

FailureOr<std::unique_ptr<FunctionPlan>> planFunction(func::FuncOp function) {
  return Planner(function).run();
}

} // namespace kiln::passes
