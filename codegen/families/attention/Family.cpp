// The family of attention: tiles of scores that stay on the chip. A backward is divided into
// kernels by what it differentiates.
#include "codegen/family/Family.h"

#include "codegen/families/attention/Kernel.h"
#include "codegen/families/attention/Shapes.h"
#include "codegen/family/FusionPreparation.h"
#include "dialect/Math.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <fmt/format.h>

using namespace mlir;

namespace kiln::attention {
namespace {

/// The same operation with some of its results.
ir::AttentionBackwardOp withResults(ir::AttentionBackwardOp op, ArrayRef<unsigned> wanted,
                                    OpBuilder& builder) {
  SmallVector<Type> types;
  SmallVector<int32_t> segments;
  for (Value result : {op.getDQuery(), op.getDKey(), op.getDValue(), op.getDBias()}) {
    const bool keeps =
        result && llvm::is_contained(wanted, cast<OpResult>(result).getResultNumber());
    segments.push_back(keeps ? 1 : 0);
    if (keeps)
      types.push_back(result.getType());
  }
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.set("resultSegmentSizes", builder.getDenseI32ArrayAttr(segments));
  return builder.create<ir::AttentionBackwardOp>(op.getLoc(), types, op->getOperands(),
                                                 attributes.getAttrs());
}

/// Gradients that are kernels of their own are operations of their own.
void divide(ir::AttentionBackwardOp op, OpBuilder& builder, const Target& target) {
  const auto kernels = resultsByKernel(op, target);
  if (kernels.size() < 2)
    return;
  builder.setInsertionPoint(op);
  for (ArrayRef<unsigned> wanted : kernels)
    for (auto [from, to] : llvm::zip_equal(wanted, withResults(op, wanted, builder)->getResults()))
      op->getResult(from).replaceAllUsesWith(to);
  op.erase();
}

/// Products take an output's gradient in the type of the query.
void convertGradient(ir::AttentionBackwardOp op, OpBuilder& builder) {
  builder.setInsertionPoint(op);
  ir::MathBuilder math(builder, op.getLoc());
  Value gradient = op.getOutputGradient();
  Type element = ir::tensorType(op.getQuery()).getElementType();
  if (ir::tensorType(gradient).getElementType() != element)
    op.getOutputGradientMutable().assign(math.cast(math.f32(gradient), element));
}

/// Whether rows, or starts of sequences, do not lie densely: then they are copied into such that
/// do.
bool isScattered(func::FuncOp function, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  const RankedTensorType type = ir::tensorType(value);
  const bool isRows = isa<FloatType>(type.getElementType()) && type.getRank() >= 3;
  if (!argument || !(isRows || type.getElementType().isInteger(32)))
    return false;
  auto layout = function.getArgAttrOfType<ir::LayoutAttr>(argument.getArgNumber(), ir::kLayoutAttr);
  return layout && !layout.getStrides().empty() && layout.getStrides().back() != 1 &&
         ir::tensorType(value).getShape().back() != 1;
}

/// An operation and what rounds its results are a group that stays alone. What it reads lies in
/// memory.
void prepareOne(Operation* op, const std::string& number, family::FusionPreparation& preparation) {
  family::Group& group = preparation.alone();
  group.insert(op);
  for (Value result : op->getResults())
    if (auto round = result.hasOneUse() ? dyn_cast<arith::TruncFOp>(*result.user_begin())
                                        : arith::TruncFOp())
      group.insert(round);
  preparation.builder.setInsertionPoint(op);
  for (OpOperand& operand : op->getOpOperands()) {
    Operation* from = operand.get().getDefiningOp();
    if ((from && family::isRematerializable(from)) ||
        isScattered(preparation.function, operand.get()))
      preparation.copyInto(operand,
                           "_operand" + number + "_" + std::to_string(operand.getOperandNumber()));
  }
}

/// Why what is computed of the output is left to a kernel of rows; empty: it is not.
std::string tooMuch(const Program& program, int most) {
  if (const int operations = program.epilogue->operations(); operations > most)
    return fmt::format("{} operations an element; a kernel has up to {}", operations, most);
  constexpr int64_t narrow = 8;
  const int tensors = program.epilogue->tensors();
  if (program.width() == narrow && program.form.bias && tensors > 1)
    return fmt::format("{} tensors read behind attention with a bias, of rows of {} elements; its "
                       "kernel has registers for one",
                       tensors, narrow);
  return "";
}

class AttentionFamily : public family::KernelFamily {
 public:
  const ScheduleForm* form() const override { return &scheduleForm; }
  bool anchors(Operation* op) const override { return isAttention(op); }

  /// Products round probabilities and gradients of scores to the type of the query, or to two parts
  /// of tf32; sums of exponentials of 2-byte types are as good as fp32. Tensor cores cut long sums
  /// of fp32 off, which rows wider than 128 leave no registers to mend (device/matrix_tile.cuh).
  double rounding(Value result) const override {
    auto forward = result.getDefiningOp<ir::AttentionOp>();
    auto backward = result.getDefiningOp<ir::AttentionBackwardOp>();
    if (!forward && !backward)
      return 0.0;
    const auto query = ir::tensorType(forward ? forward.getQuery() : backward.getQuery());
    const auto value = ir::tensorType(forward ? forward.getValue() : backward.getValue());
    const Type element = query.getElementType();
    if (element.isF32())
      return std::max(query.getShape().back(), value.getShape().back()) > 128 ? 0x1p-18 : 0x1p-20;
    if (forward && result == forward.getLse())
      return 0.0;
    return element.isBF16() ? 0x1p-8 : 0x1p-11;
  }

  std::vector<family::Shape> shapes(const family::ShapeRequest& request) const override {
    return attention::shapesOf(request);
  }

  void prepare(family::FusionPreparation& preparation) const override {
    Block& block = preparation.block;
    for (auto op : llvm::make_early_inc_range(block.getOps<ir::AttentionBackwardOp>())) {
      convertGradient(op, preparation.builder);
      divide(op, preparation.builder, preparation.target);
    }
    SmallVector<Operation*> found;
    for (Operation& op : block)
      if (isAttention(&op))
        found.push_back(&op);
    for (auto [i, op] : llvm::enumerate(found))
      prepareOne(op, std::to_string(i), preparation);
  }

  std::unique_ptr<family::Kernel> analyze(ir::KernelOp kernel,
                                          family::Refusal& refusal) const override {
    std::optional<Program> program = attention::analyze(kernel, refusal);
    if (!program)
      return nullptr;
    return std::make_unique<AttentionKernel>(kernel, std::move(*program));
  }

  std::string reasonAgainst(const family::Considered& considered,
                            const std::optional<family::FusionLimits>& limits) const override {
    family::Refusal refusal;
    std::optional<Program> program = attention::analyze(considered.kernel, refusal);
    if (!program)
      return refusal.reason;
    return limits && program->epilogue ? tooMuch(*program, limits->operations) : "";
  }
};

} // namespace

const family::Family& get() {
  static const AttentionFamily family;
  return family;
}

} // namespace kiln::attention
