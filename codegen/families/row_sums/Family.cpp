// The family of sums of rows: what it anchors, and its kernels. See RowSum.h.
#include "codegen/family/Family.h"

#include "codegen/families/row_sums/Skeleton.h"
#include "codegen/family/Elementary.h"
#include "codegen/family/FusionPreparation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kiln::row_sums {
namespace {

/// A sum over the last and some other dimensions: over the last first.
void sumOfRowsFirst(ir::ReduceOp reduce, OpBuilder& builder) {
  builder.setInsertionPoint(reduce);
  for (;;) {
    SmallVector<int64_t> dims(reduce.getDims());
    auto type = ir::tensorType(reduce.getInput());
    bool mixed = dims.size() > 1 && dims.back() == type.getRank() - 1 && !reduce.isOverAll();
    if (reduce.getKind() != ir::ReduceKind::sum || !mixed)
      return;
    auto rows = builder.create<ir::ReduceOp>(
        reduce.getLoc(), RankedTensorType::get(type.getShape().drop_back(), builder.getF32Type()),
        reduce.getKind(), reduce.getInput(), dims.pop_back_val());
    reduce.getInputMutable().assign(rows);
    reduce.setDims(dims);
  }
}

/// The group of a sum, which stays alone. What it sums is written to memory if it is computed,
/// before it is widened if it is; and it rounds what it stores.
void prepareSum(Operation* op, const std::string& number, family::FusionPreparation& preparation) {
  OpBuilder& builder = preparation.builder;
  family::Group& group = preparation.alone();
  OpOperand* source = &op->getOpOperand(0);
  builder.setInsertionPoint(op);
  if (auto widen = source->get().getDefiningOp<arith::ExtFOp>()) {
    Operation* own = builder.clone(*widen);
    source->set(own->getResult(0));
    source = &own->getOpOperand(0);
    builder.setInsertionPoint(own);
    group.insert(own);
    if (widen.use_empty())
      widen.erase();
  }
  group.insert(op);
  Value result = op->getResult(0);
  if (auto round =
          result.hasOneUse() ? dyn_cast<arith::TruncFOp>(*result.user_begin()) : arith::TruncFOp())
    group.insert(round);
  auto store = [&](OpOperand& read, const char* suffix) {
    if (Operation* from = read.get().getDefiningOp(); from && family::isRematerializable(from))
      preparation.copyInto(read, suffix + number);
  };
  store(*source, "_summed");
  if (op->getNumOperands() > 1)
    store(op->getOpOperand(1), "_index");
}

class SumKernel : public family::Kernel {
 public:
  SumKernel(ir::KernelOp op, OwningOpRef<ir::KernelOp> body, RowSum sum)
      : Kernel(op), body(std::move(body)), sum(sum) {}

  /// What is kept of a sum of rows has the sizes that it had; segments are as many as their pattern
  /// has, and indices as many as rows.
  LogicalResult unify(family::SizeClasses& sizes) override {
    if (op.getSchedule())
      return op.emitError("a sum of rows takes no schedule; leave it out");
    Value rows = input(sum.rows);
    int to = 0;
    if (sum.like)
      sizes.unite({input(sum.like), 0}, {op.getResult(0), 0});
    for (size_t d = 0; sum.index && d + 1 < sum.summed.size(); ++d)
      sizes.unite({rows, static_cast<int>(d)}, {input(sum.index), static_cast<int>(d)});
    if (sum.index)
      return success();
    for (auto [d, summed] : llvm::enumerate(sum.summed))
      if (!summed)
        sizes.unite({rows, static_cast<int>(d)}, {op.getResult(0), to++});
    return success();
  }

  void bind(const family::Binding& binding) override {
    rows = binding.inputs[sum.rows.getArgNumber()];
    index = sum.index ? binding.inputs[sum.index.getArgNumber()] : nullptr;
    output = binding.outputs.front();
  }

  const ScheduleForm* form() const override { return nullptr; }
  std::unique_ptr<model::KernelModel> model(ArrayRef<int64_t>) const override { return nullptr; }

  void lower(ModuleOp module, LaunchPlan& plan) override {
    auto target = module->getAttrOfType<ir::TargetAttr>(ir::kTargetAttr);
    KernelContext context{family::entryName(op.getName()),
                          sum,
                          rows,
                          index,
                          output,
                          ir::tensorType(op.getResult(0)).getElementType(),
                          target && target.getMaxCluster() > 1};
    lowerKernel(context, module, plan);
  }

 private:
  Value input(BlockArgument argument) { return op.getInputs()[argument.getArgNumber()]; }

  OwningOpRef<ir::KernelOp> body; // in elementary operations
  RowSum sum;                     // of the body
  const family::BufferInfo *rows = nullptr, *index = nullptr, *output = nullptr;
};

class SumFamily : public family::KernelFamily {
 public:
  bool anchors(Operation* op) const override { return standsAlone(op); }

  std::vector<family::Shape> shapes(const family::ShapeRequest& request) const override {
    return family::leadingShapes(request, {.tail = 997, .few = 131});
  }

  /// Each sum becomes a group that stays alone.
  void prepare(family::FusionPreparation& preparation) const override {
    Block& block = preparation.block;
    for (ir::ReduceOp reduce : llvm::make_early_inc_range(block.getOps<ir::ReduceOp>()))
      sumOfRowsFirst(reduce, preparation.builder);
    SmallVector<Operation*> found;
    for (Operation& op : block)
      if (standsAlone(&op))
        found.push_back(&op);
    for (auto [i, op] : llvm::enumerate(found))
      prepareSum(op, std::to_string(i), preparation);
  }

  std::unique_ptr<family::Kernel> analyze(ir::KernelOp kernel,
                                          family::Refusal& refusal) const override {
    OwningOpRef<ir::KernelOp> body = family::elementaryCopy(kernel);
    std::optional<RowSum> sum = row_sums::analyze(body->getBody().front(), refusal.reason);
    if (!sum)
      return nullptr;
    refusal = {};
    return std::make_unique<SumKernel>(kernel, std::move(body), *sum);
  }
};

} // namespace

const family::Family& get() {
  static const SumFamily family;
  return family;
}

} // namespace kiln::row_sums
