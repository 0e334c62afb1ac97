// See ListPlan.h.
#include "codegen/passes/ListPlan.h"

#include "codegen/passes/FunctionPlan.h"
#include "codegen/segments/Partition.h"

using namespace mlir;

namespace kiln::passes {
namespace {

class ListPlanner {
 public:
  explicit ListPlanner(func::FuncOp function) : function(function), names(function) {}

  FailureOr<std::unique_ptr<ListPlan>> run() {
    if (failed(segments::checkSignature(function)))
      return failure();
    plan->launch.function = function.getName().str();
    addArguments();
    for (Operation& op : function.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<ir::KernelOp>(op);
      if (!kernel)
        return op.emitError("stands outside a kernel; run kiln-fuse first"), failure();
      plan->kernels.push_back({kernel, elementaryCopy(kernel), {}, {}, {}, {}});
      if (failed(checkBody(*plan->kernels.back().body)))
        return failure();
    }
    if (failed(addResults()))
      return failure();
    for (ListKernel& kernel : plan->kernels)
      if (failed(fill(kernel)))
        return failure();
    return std::move(plan);
  }

 private:
  TensorInfo infoOf(Value value, StringRef name) {
    TensorInfo info;
    info.name = names.unique(name);
    info.dtype = dtypeOf(ir::tensorType(value).getElementType());
    info.alignment = static_cast<int64_t>(sizeInBytes(info.dtype));
    info.nonNegative = ir::isReadAsNonNegative(value);
    return info;
  }
  /// A list or a tensor without dimensions becomes known under its name; `list` says that and of
  /// which part it is.
  void place(Value value, StringRef name, Attribute list, std::vector<TensorInfo>& lists,
             std::vector<TensorInfo>& others) {
    TensorInfo info = infoOf(value, name);
    segments::Place& where = places[value];
    where.name = info.name;
    if (list) {
      info.part = where.part = ir::listPart(list);
      where.list = plan->tables[where.part].lists++;
    }
    (list ? lists : others).push_back(info);
  }

  void addArguments() {
    LaunchPlan& launch = plan->launch;
    launch.lists.chunk = segments::chunkElements;
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      Attribute list = function.getArgAttr(i, ir::kListAttr);
      if (list && ir::listPart(list) >= static_cast<int>(plan->tables.size()))
        plan->tables.resize(ir::listPart(list) + 1);
      place(argument, nameAttr(function.getArgAttrDict(i), "in" + std::to_string(i)), list,
            launch.lists.inputs, launch.inputs);
    }
    for (auto [part, table] : llvm::enumerate(plan->tables)) {
      table.chunks = names.unique("chunks");
      table.segments = names.unique("segments");
      table.chunkCount = {0, static_cast<int>(2 * part)};
      launch.inputs.push_back({table.chunks, DType::i64, {table.chunkCount}, {1}, 16});
      launch.inputs.push_back(
          {table.segments, DType::i64, {Extent{0, table.chunkCount.symbol + 1}}, {1}, 16});
    }
  }

  /// Lists are stored by the kernel that returns them; numbers are results or handed on.
  LogicalResult addResults() {
    LaunchPlan& launch = plan->launch;
    auto end = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (auto [i, value] : llvm::enumerate(end.getOperands())) {
      if (!value.getDefiningOp() || places.contains(value))
        return function.emitError("result ")
               << i << " is an argument or returned twice; run kiln-fuse first";
      place(value, nameAttr(function.getResultAttrDict(i), "out" + std::to_string(i)),
            function.getResultAttr(i, ir::kListAttr), launch.lists.outputs, launch.outputs);
    }
    int between = 0;
    for (ListKernel& kernel : plan->kernels)
      for (Value value : kernel.op.getResults()) {
        if (places.contains(value))
          continue;
        if (segments::isList(value))
          return kernel.op.emitError("a list that is no result of the function; kernels hand only "
                                     "numbers on");
        TensorInfo info = infoOf(value, "between" + std::to_string(between++));
        places[value].name = info.name;
        launch.workspaces.push_back({info.name, info.dtype, 1, -1, {}});
      }
    return success();
  }

  /// A kernel hand-edited or not: elementary operations, and no list that depends on a sum.
  LogicalResult checkBody(ir::KernelOp kernel) {
    llvm::DenseSet<Value> afterSum;
    for (Operation& op : kernel.getBody().front().without_terminator()) {
      if (failed(segments::checkOperation(op)))
        return failure();
      bool after = isa<ir::ReduceOp>(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
                     return afterSum.contains(operand);
                   });
      if (!after)
        continue;
      bool overLists = llvm::any_of(op.getResults(), segments::isList) ||
                       (isa<ir::ReduceOp>(op) && afterSum.contains(op.getOperand(0)));
      if (overLists)
        return op.emitError("depends on a sum over lists, which is known only after the kernel");
      afterSum.insert(op.result_begin(), op.result_end());
    }
    return success();
  }

  LogicalResult fill(ListKernel& kernel) {
    for (Value value : kernel.op.getInputs())
      kernel.inputs.push_back(places.at(value));
    for (Value value : kernel.op.getResults())
      kernel.outputs.push_back(places.at(value));
    measure(kernel);
    return checkParts(kernel);
  }

  /// What is stored lies in the part that the value comes from.
  static LogicalResult checkParts(ListKernel& kernel) {
    Block& body = kernel.op.getBody().front();
    auto parts = segments::partsOf(body, [&](unsigned i) { return kernel.inputs[i].part; });
    if (failed(parts))
      return failure();
    for (auto [value, place] : llvm::zip_equal(body.getTerminator()->getOperands(), kernel.outputs))
      if (segments::isList(value) && parts->lookup(value) != place.part)
        return kernel.op.emitError("stores a list of part ")
               << parts->lookup(value) << " as '" << place.name << "' of part " << place.part
               << "; a result belongs to the part of what it is made of";
    return success();
  }

  /// The lists of each part that a kernel moves; what all of them together ask of a schedule.
  static void measure(ListKernel& kernel) {
    std::map<int, segments::Facts> parts;
    auto add = [&](Value value, const segments::Place& place, int segments::Facts::* count,
                   int segments::Facts::* moved) {
      if (!segments::isList(value))
        return;
      segments::Facts& part =
          parts.try_emplace(place.part, segments::Facts{.widestBytes = 1}).first->second;
      const auto bytes =
          static_cast<int>(sizeInBytes(dtypeOf(ir::tensorType(value).getElementType())));
      ++(part.*count);
      part.*moved += bytes;
      part.widestBytes = std::max(part.widestBytes, bytes);
    };
    using Facts = segments::Facts;
    for (auto [value, place] : llvm::zip_equal(kernel.op.getInputs(), kernel.inputs))
      add(value, place, &Facts::inputs, &Facts::bytesRead);
    for (auto [value, place] : llvm::zip_equal(kernel.op.getResults(), kernel.outputs))
      add(value, place, &Facts::outputs, &Facts::bytesWritten);
    kernel.facts = segments::together(parts);
    for (const auto& [part, facts] : parts)
      kernel.widestBytes[part] = facts.widestBytes;
  }

  func::FuncOp function;
  std::unique_ptr<ListPlan> plan = std::make_unique<ListPlan>();
  llvm::DenseMap<Value, segments::Place> places;
  BufferNames names;
};

} // namespace

FailureOr<std::unique_ptr<ListPlan>> planLists(func::FuncOp function) {
  return ListPlanner(function).run();
}

} // namespace kiln::passes
