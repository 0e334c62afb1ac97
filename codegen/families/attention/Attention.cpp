// See Attention.h.
#include "codegen/families/attention/Attention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kiln::attention {
namespace {

constexpr int64_t kWidestTogether = 128; // rows whose two gradients fit a thread's registers

Kind kindOf(Operation* op) {
  auto backward = dyn_cast<ir::AttentionBackwardOp>(op);
  if (!backward)
    return Kind::forward;
  if (backward.getDQuery())
    return Kind::queryGradient;
  return backward.getDBias() ? Kind::biasGradient : Kind::keyGradient;
}

/// The kernel's output that a result is, rounded or not; -1 if it is none.
int outputOf(Value result, Operation* yield) {
  for (OpOperand& use : result.getUses()) {
    if (use.getOwner() == yield)
      return static_cast<int>(use.getOperandNumber());
    if (auto round = dyn_cast<arith::TruncFOp>(use.getOwner()))
      return outputOf(round.getResult(), yield);
  }
  return -1;
}

/// Each result goes into memory once: from where it is computed, through roundings at most.
bool isStoredOnce(Value result, Operation* yield) {
  if (result.use_empty())
    return true;
  if (!result.hasOneUse())
    return false;
  Operation* user = *result.user_begin();
  return user == yield || (isa<arith::TruncFOp>(user) && isStoredOnce(user->getResult(0), yield));
}

} // namespace

bool isAttention(Operation* op) {
  return isa<ir::AttentionOp, ir::AttentionBackwardOp>(op);
}

SmallVector<SmallVector<unsigned>> resultsByKernel(ir::AttentionBackwardOp op) {
  SmallVector<SmallVector<unsigned>> kernels;
  const auto add = [&](Value result, bool joins) {
    if (!result)
      return;
    if (!joins)
      kernels.emplace_back();
    kernels.back().push_back(cast<OpResult>(result).getResultNumber());
  };
  const int64_t widest = std::max(ir::tensorType(op.getQuery()).getShape().back(),
                                  ir::tensorType(op.getValue()).getShape().back());
  add(op.getDQuery(), false);
  add(op.getDKey(), false);
  add(op.getDValue(), op.getDKey() && widest <= kWidestTogether);
  add(op.getDBias(), false);
  return kernels;
}

std::optional<Program> analyze(Block& body, family::Refusal& refusal) {
  Operation *found = nullptr, *yield = body.getTerminator();
  for (Operation& op : body.without_terminator()) {
    if (isAttention(&op) && !found)
      found = &op;
    else if (!isa<arith::TruncFOp>(op)) {
      refusal.because(&op,
                      "stands in a kernel of attention, which computes one attention and rounds "
                      "its results; kiln-fuse divides what is more");
      return std::nullopt;
    }
  }
  if (!found) {
    refusal.reason = "a kernel of attention computes none";
    return std::nullopt;
  }
  for (Value operand : found->getOperands())
    if (!isa<BlockArgument>(operand)) {
      refusal.because(found, "reads what its kernel computes; kiln-fuse stores it before");
      return std::nullopt;
    }
  auto backward = dyn_cast<ir::AttentionBackwardOp>(found);
  if (backward && resultsByKernel(backward).size() != 1) {
    refusal.because(found,
                    "asks for gradients that are kernels of their own: of queries, of keys and "
                    "values, of the bias; kiln-fuse divides them");
    return std::nullopt;
  }
  Program program{found,
                  kindOf(found),
                  backward ? ir::AttentionForm(backward)
                           : ir::AttentionForm(cast<ir::AttentionOp>(found)),
                  {},
                  {},
                  {},
                  {}};
  if (backward) {
    program.outputGradient = backward.getOutputGradient();
    program.delta = backward.getDelta();
    program.lse = backward.getLse();
    if (ir::tensorType(program.outputGradient).getElementType() !=
        ir::tensorType(program.form.query).getElementType()) {
      refusal.because(found, "has an output's gradient of another type than the query; kiln-fuse "
                             "converts it");
      return std::nullopt;
    }
  }
  for (Value result : found->getResults()) {
    program.outputs.push_back(outputOf(result, yield));
    if (!isStoredOnce(result, yield)) {
      refusal.because(found, "has a result that is used twice");
      return std::nullopt;
    }
    if (program.outputs.back() < 0) {
      refusal.because(found, "has a result that nothing reads, and its kernel stores all; return "
                             "output and lse from the function, and ask a backward for no "
                             "gradient that is not read");
      return std::nullopt;
    }
  }
  return program;
}

} // namespace kiln::attention
