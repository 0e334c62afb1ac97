// See ListPlan.h.
#include "codegen/passes/ListPlan.h"

#include "codegen/passes/FunctionPlan.h"
#include "codegen/segments/Partition.h"

using namespace mlir;

namespace kiln::passes {
namespace {

class ListPlanner {
 public:
  explicit ListPlanner(func::FuncOp function) : function(function) {}

  FailureOr<std::unique_ptr<ListPlan>> run() {
    if (failed(segments::checkSignature(function)))
      return failure();
    plan->launch.function = function.getName().str();
    addArguments();
    for (Operation& op : function.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<ir::KernelOp>(op);
      if (!kernel)
        return op.emitError("stands outside a kernel; run kiln-fuse first"), failure();
      plan->kernels.push_back({kernel, elementaryCopy(kernel), {}, {}, {}});
      if (failed(checkBody(*plan->kernels.back().body)))
        return failure();
    }
    if (failed(addResults()))
      return failure();
    for (ListKernel& kernel : plan->kernels)
      fill(kernel);
    return std::move(plan);
  }

 private:
  TensorInfo infoOf(Value value, StringRef name) {
    TensorInfo info;
    info.name = names.unique(name);
    info.dtype = dtypeOf(ir::tensorType(value).getElementType());
    info.alignment = static_cast<int64_t>(sizeInBytes(info.dtype));
    return info;
  }
  /// A list or a tensor without dimensions becomes known under its name.
  TensorInfo place(Value value, StringRef name, std::vector<TensorInfo>& lists,
                   std::vector<TensorInfo>& others) {
    TensorInfo info = infoOf(value, name);
    segments::Place& where = places[value];
    where.name = info.name;
    (segments::isList(value) ? lists : others).push_back(info);
    return info;
  }

  void addArguments() {
    LaunchPlan& launch = plan->launch;
    launch.lists.chunk = segments::chunkElements;
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      place(argument, nameAttr(function.getArgAttrDict(i), "in" + std::to_string(i)),
            launch.lists.inputs, launch.inputs);
      if (segments::isList(argument))
        places[argument].list = static_cast<int>(launch.lists.inputs.size()) - 1;
    }
    for (int symbol : {0, 1})
      launch.inputs.push_back(
          {names.unique(symbol ? "segments" : "chunks"), DType::i64, {Extent{0, symbol}}, {1}, 16});
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
            launch.lists.outputs, launch.outputs);
      if (segments::isList(value))
        places[value].list =
            static_cast<int>(launch.lists.inputs.size() + launch.lists.outputs.size()) - 1;
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

  void fill(ListKernel& kernel) {
    int widest = 1;
    auto add = [&](Value value, SmallVector<segments::Place>& list, int& count, int& moved) {
      list.push_back(places.at(value));
      if (!segments::isList(value))
        return;
      ++count;
      int bytes = static_cast<int>(sizeInBytes(dtypeOf(ir::tensorType(value).getElementType())));
      widest = std::max(widest, bytes);
      moved += bytes;
    };
    for (Value value : kernel.op.getInputs())
      add(value, kernel.inputs, kernel.facts.inputs, kernel.facts.bytesRead);
    for (Value value : kernel.op.getResults())
      add(value, kernel.outputs, kernel.facts.outputs, kernel.facts.bytesWritten);
    kernel.facts.widestBytes = widest;
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
