// The family of lists of tensors: it takes whole functions, divides them by their sums
// (Partition.h) and plans what they need in memory: tables of where the tensors lie, and numbers.
#include "codegen/family/Family.h"
#include "codegen/families/multi_tensor/Model.h"
#include "codegen/families/multi_tensor/Partition.h"
#include "codegen/families/multi_tensor/Skeleton.h"
#include "codegen/family/Elementary.h"

using namespace mlir;

namespace kiln::multi_tensor {
namespace {

struct Plan : family::FunctionPlan {
  SmallVector<Table> tables; // by part
  std::string counter;
};

class ListKernel : public family::Kernel {
 public:
  ListKernel(ir::KernelOp op, const Plan& plan)
      : Kernel(op), body(family::elementaryCopy(op)), plan(plan) {}

  LogicalResult unify(family::SizeClasses&) override { return success(); }
  void bind(const family::Binding&) override {}
  const ScheduleForm* form() const override { return &scheduleForm; }
  std::unique_ptr<model::KernelModel> model(ArrayRef<int64_t>) const override {
    return std::make_unique<Model>(facts, model::kTypicalElements);
  }

  void lower(ModuleOp module, LaunchPlan& launch) override {
    const Schedule schedule = Schedule::of(op.getSchedule()->getSchedule());
    KernelContext context{family::entryName(op.getName()),
                          &body->getBody().front(),
                          schedule,
                          facts,
                          inputs,
                          outputs,
                          plan.tables,
                          plan.counter,
                          {}};
    for (auto [part, bytes] : widestBytes)
      context.vectors[part] = vectorOf(schedule.vector, facts, bytes);
    lowerKernel(context, module, launch);
  }

  OwningOpRef<ir::KernelOp> body; // in elementary operations
  SmallVector<Place> inputs, outputs;
  Facts facts;
  std::map<int, int> widestBytes; // of an element, by the parts that it works on

 private:
  const Plan& plan;
};

class ListPlanner {
 public:
  explicit ListPlanner(func::FuncOp function) : function(function), names(function) {}

  FailureOr<std::unique_ptr<family::FunctionPlan>> run() {
    if (failed(checkSignature(function)))
      return failure();
    plan->launch.function = function.getName().str();
    addArguments();
    for (Operation& op : function.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<ir::KernelOp>(op);
      if (!kernel)
        return op.emitError("stands outside a kernel; run kiln-fuse first"), failure();
      auto& made = kernels.emplace_back(std::make_unique<ListKernel>(kernel, *plan));
      if (failed(checkBody(*made->body)))
        return failure();
    }
    addCounter();
    if (failed(addResults()))
      return failure();
    for (std::unique_ptr<ListKernel>& kernel : kernels) {
      if (failed(fill(*kernel)))
        return failure();
      plan->kernels.push_back(std::move(kernel));
    }
    return FailureOr<std::unique_ptr<family::FunctionPlan>>(std::move(plan));
  }

 private:
  TensorInfo infoOf(Value value, StringRef name) {
    TensorInfo info;
    info.name = names.unique(name);
    info.dtype = family::dtypeOf(ir::tensorType(value).getElementType());
    info.alignment = static_cast<int64_t>(sizeInBytes(info.dtype));
    info.lowest = ir::numbersTaken(value).lowest;
    return info;
  }
  /// A list or a tensor without dimensions becomes known under its name; `list` says that and of
  /// which part it is.
  void place(Value value, StringRef name, Attribute list, std::vector<TensorInfo>& lists,
             std::vector<TensorInfo>& others) {
    TensorInfo info = infoOf(value, name);
    Place& where = places[value];
    where.name = info.name;
    if (list) {
      info.part = where.part = ir::listPart(list);
      where.list = plan->tables[where.part].lists++;
    }
    (list ? lists : others).push_back(info);
  }

  void addArguments() {
    LaunchPlan& launch = plan->launch;
    launch.lists.chunk = chunkElements;
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      Attribute list = function.getArgAttr(i, ir::kListAttr);
      if (list && ir::listPart(list) >= static_cast<int>(plan->tables.size()))
        plan->tables.resize(ir::listPart(list) + 1);
      place(argument, family::nameAttr(function.getArgAttrDict(i), "in" + std::to_string(i)), list,
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

  /// The last blocks of kernels that take sums know that they are.
  void addCounter() {
    LaunchPlan& launch = plan->launch;
    launch.lists.counts =
        llvm::any_of(kernels, [](const auto& kernel) { return hasSums(*kernel); });
    if (!launch.lists.counts)
      return;
    plan->counter = names.unique("counted");
    launch.inputs.push_back({plan->counter, DType::i32, {Extent{1, -1}}, {1}, 16});
  }

  /// Lists are stored by the kernel that returns them; numbers are results or handed on.
  LogicalResult addResults() {
    LaunchPlan& launch = plan->launch;
    auto end = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (auto [i, value] : llvm::enumerate(end.getOperands())) {
      if (!value.getDefiningOp() || places.contains(value))
        return function.emitError("result ")
               << i << " is an argument or returned twice; run kiln-fuse first";
      place(value, family::nameAttr(function.getResultAttrDict(i), "out" + std::to_string(i)),
            function.getResultAttr(i, ir::kListAttr), launch.lists.outputs, launch.outputs);
    }
    int between = 0;
    for (std::unique_ptr<ListKernel>& made : kernels) {
      ListKernel& kernel = *made;
      for (Value value : kernel.op.getResults()) {
        if (places.contains(value))
          continue;
        if (isList(value))
          return kernel.op.emitError("a list that is no result of the function; kernels hand only "
                                     "numbers on");
        TensorInfo info = infoOf(value, "between" + std::to_string(between++));
        places[value].name = info.name;
        launch.workspaces.push_back({info.name, info.dtype, 1, -1, {}});
      }
    }
    return success();
  }

  /// A kernel hand-edited or not: elementary operations, and no list that depends on a sum.
  LogicalResult checkBody(ir::KernelOp kernel) {
    llvm::DenseSet<Value> afterSum;
    for (Operation& op : kernel.getBody().front().without_terminator()) {
      if (failed(checkOperation(op)))
        return failure();
      bool after = isa<ir::ReduceOp>(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
                     return afterSum.contains(operand);
                   });
      if (!after)
        continue;
      bool overLists = llvm::any_of(op.getResults(), isList) ||
                       (isa<ir::ReduceOp>(op) && afterSum.contains(op.getOperand(0)));
      if (overLists)
        return op.emitError("depends on a sum over lists, which is known only after the kernel");
      afterSum.insert(op.result_begin(), op.result_end());
    }
    return success();
  }

  static bool hasSums(ListKernel& kernel) {
    return !kernel.body->getBody().front().getOps<ir::ReduceOp>().empty();
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
    auto parts = partsOf(body, [&](unsigned i) { return kernel.inputs[i].part; });
    if (failed(parts))
      return failure();
    for (auto [value, place] : llvm::zip_equal(body.getTerminator()->getOperands(), kernel.outputs))
      if (isList(value) && parts->lookup(value) != place.part)
        return kernel.op.emitError("stores a list of part ")
               << parts->lookup(value) << " as '" << place.name << "' of part " << place.part
               << "; a result belongs to the part of what it is made of";
    return success();
  }

  /// The lists of each part that a kernel moves; what all of them together ask of a schedule.
  static void measure(ListKernel& kernel) {
    std::map<int, Facts> parts;
    auto add = [&](Value value, const Place& place, int Facts::* count, int Facts::* moved) {
      if (!isList(value))
        return;
      Facts& part = parts.try_emplace(place.part, Facts{.widestBytes = 1}).first->second;
      const auto bytes =
          static_cast<int>(sizeInBytes(family::dtypeOf(ir::tensorType(value).getElementType())));
      ++(part.*count);
      part.*moved += bytes;
      part.widestBytes = std::max(part.widestBytes, bytes);
    };
    for (auto [value, place] : llvm::zip_equal(kernel.op.getInputs(), kernel.inputs))
      add(value, place, &Facts::inputs, &Facts::bytesRead);
    for (auto [value, place] : llvm::zip_equal(kernel.op.getResults(), kernel.outputs))
      add(value, place, &Facts::outputs, &Facts::bytesWritten);
    kernel.facts = together(parts);
    kernel.facts.hasSums = hasSums(kernel);
    for (const auto& [part, facts] : parts)
      kernel.widestBytes[part] = facts.widestBytes;
  }

  func::FuncOp function;
  std::unique_ptr<Plan> plan = std::make_unique<Plan>();
  std::vector<std::unique_ptr<ListKernel>> kernels;
  llvm::DenseMap<Value, Place> places;
  family::BufferNames names;
};

/// Around vectors and chunks, and one that fills many blocks; the tensors of a list lie one after
/// another, so that they begin anywhere.
constexpr std::int64_t kOddLengths[] = {1 << 18, 2048, 0,    1024, 1,       1023,
                                        1025,    3,    9001, 0,    1 << 14, 7};
/// 2^24 elements: a layer of a transformer, 1024 wide, and a piece of its embedding.
constexpr std::int64_t kSquare = 1 << 20;
constexpr std::int64_t kTypicalLengths[] = {4 * kSquare, 4 * kSquare, 4 * kSquare,    kSquare,
                                            kSquare,     kSquare,     kSquare - 4096, 1024,
                                            1024,        2048};

class ListFamily : public family::FunctionFamily {
 public:
  const ScheduleForm* form() const override { return &scheduleForm; }
  std::vector<family::Shape> shapes(const family::ShapeRequest&) const override {
    return {{.name = "lists of many lengths",
             .sizes = {},
             .lengths = {std::begin(kOddLengths), std::end(kOddLengths)}}};
  }
  std::vector<std::int64_t> typicalLengths() const override {
    return {std::begin(kTypicalLengths), std::end(kTypicalLengths)};
  }
  bool takes(func::FuncOp function) const override { return isOverLists(function); }
  LogicalResult fuse(func::FuncOp function) const override { return partition(function); }
  FailureOr<std::unique_ptr<family::FunctionPlan>> plan(func::FuncOp function) const override {
    return ListPlanner(function).run();
  }
};

} // namespace

const family::Family& get() {
  static const ListFamily family;
  return family;
}

} // namespace kiln::multi_tensor
