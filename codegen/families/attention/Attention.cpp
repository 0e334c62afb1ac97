// See Attention.h.
#include "codegen/families/attention/Attention.h"

#include "codegen/families/attention/Resources.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kiln::attention {
namespace {

constexpr int64_t kWidestTogether = 128; // rows whose two gradients fit a thread's registers

Kind kindOf(Operation* op) {
  auto backward = dyn_cast<ir::AttentionBackwardOp>(op);
  if (!backward)
    return Kind::forward;
  if (backward.getDKey() || backward.getDValue())
    return Kind::keyGradient;
  return backward.getDQuery() ? Kind::queryGradient : Kind::biasGradient;
}

bool isTwoBytes(Value value) {
  return ir::tensorType(value).getElementType().getIntOrFloatBitWidth() == 16;
}

/// Whether the gradient of the bias joins those of keys and values: its sums of all queries fit the
/// registers of a thread beside theirs, and different heads add to them.
bool joinsKeys(ir::AttentionBackwardOp op, int64_t mostQueries = kMostOfWholeQueries) {
  constexpr int64_t widest = 32;
  if (!op.getDKey() || !op.getDValue() || !op.getDBias())
    return false;
  const ir::AttentionForm form(op);
  const ArrayRef<int64_t> query = ir::tensorType(form.query).getShape();
  const ArrayRef<int64_t> key = ir::tensorType(form.key).getShape();
  const ArrayRef<int64_t> bias = ir::tensorType(form.bias).getShape();
  const auto isNarrow = [&](Value value) {
    const int64_t width = ir::tensorType(value).getShape().back();
    return width == 8 || width == 16 || width == widest;
  };
  const int64_t queries = query[query.size() - 2], keys = key[key.size() - 2];
  const bool seesAll = form.causal == ir::Causal::none && form.windowLeft < 0 &&
                       form.windowRight < 0 && !form.queryStarts;
  const bool isShared = llvm::any_of(llvm::zip(query.drop_back(2), bias.drop_back(2)), [](auto d) {
    return std::get<1>(d) == 1 && std::get<0>(d) != 1;
  });
  return isTwoBytes(form.query) && isTwoBytes(form.bias) && isNarrow(form.query) &&
         isNarrow(form.value) && query.drop_back(2) == key.drop_back(2) && queries > 0 &&
         queries <= mostQueries && keys > 0 && bias.take_back(2) == ArrayRef{queries, keys} &&
         isShared && seesAll && !form.masksPlaces() && !form.seed && form.softcap == 0.0 &&
         form.scale > 0.0;
}

/// Whether all gradients can be one kernel: a cluster of two blocks has all keys.
bool joinsAll(ir::AttentionBackwardOp op) {
  return op.getDQuery() && joinsKeys(op) &&
         ir::tensorType(op.getKey()).getShape().end()[-2] <= kMostOfWholeQueries;
}
/// Whether of more queries or keys they can be two, each of some of the queries, by clusters of
/// three blocks.
bool joinsParts(ir::AttentionBackwardOp op) {
  constexpr int64_t narrow = 8; // such rows have kernels of their own, of one part
  const int64_t keys = ir::tensorType(op.getKey()).getShape().end()[-2];
  const bool isNarrow = ir::tensorType(op.getQuery()).getShape().back() == narrow ||
                        ir::tensorType(op.getValue()).getShape().back() == narrow;
  return op.getDQuery() && !isNarrow && joinsKeys(op, kMostOfParts) && keys <= kMostOfParts;
}

/// Whether they are: products of warpgroups are the point of it, and of short sequences kernels of
/// their own are faster. Causal blocks begin one after the other, and wait less.
bool shouldTakeTurns(ir::AttentionBackwardOp op, const Target& target) {
  constexpr int64_t fewest = 512 * 128; // elements of a head's queries
  constexpr int64_t fewestCausal = 512; // queries
  const ArrayRef<int64_t> query = ir::tensorType(op.getQuery()).getShape();
  const int64_t queries = query.end()[-2];
  const bool isCausal = op.getCausal() != ir::Causal::none;
  return target.has.warpgroupMatrix && canTakeTurns(op) &&
         (ShapedType::isDynamic(queries) || queries * query.back() >= fewest ||
          (isCausal && queries >= fewestCausal));
}

/// Whether those gradients can be one kernel whose blocks have a head each.
bool canHaveHeads(ir::AttentionBackwardOp op) {
  const ir::AttentionForm form(op);
  return op.getDQuery() && op.getDKey() && op.getDValue() && !form.bias && form.softcap == 0.0 &&
         form.scale > 0.0;
}
/// Whether they are: heads of narrow rows and of so many keys.
bool shouldHaveHeads(ir::AttentionBackwardOp op) {
  constexpr int64_t widest = 32, fewest = 17, most = 256;
  const ArrayRef<int64_t> key = ir::tensorType(op.getKey()).getShape();
  const int64_t keys = key.end()[-2];
  return canHaveHeads(op) && isTwoBytes(op.getQuery()) && key.back() <= widest &&
         ir::tensorType(op.getValue()).getShape().back() <= widest && keys >= fewest &&
         keys <= most;
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

bool canTakeTurns(ir::AttentionBackwardOp op) {
  if (!op.getDQuery() || !op.getDKey() || !op.getDValue() || op.getDBias())
    return false;
  const ir::AttentionForm form(op);
  const auto hasPanels = [](Value value) {
    const int64_t width = ir::tensorType(value).getShape().back();
    return width == 64 || width == 128;
  };
  return isTwoBytes(form.query) && hasPanels(form.query) && hasPanels(form.value) && !form.bias &&
         !form.masksPlaces() && !form.queryStarts && form.windowLeft < 0 && form.windowRight < 0 &&
         !form.seed && form.softcap == 0.0 && form.scale > 0.0;
}

bool isAttention(Operation* op) {
  return isa<ir::AttentionOp, ir::AttentionBackwardOp>(op);
}

/// Kernels, the results of each. `isOne`: all of them have one.
static SmallVector<SmallVector<unsigned>> resultsByKernel(ir::AttentionBackwardOp op, bool isOne) {
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
  add(op.getDKey(), isOne);
  const bool isWide = ir::tensorType(op.getQuery()).getElementType().isF32();
  add(op.getDValue(), op.getDKey() && widest <= kWidestTogether / (isWide ? 2 : 1));
  add(op.getDBias(), joinsKeys(op) || (isOne && joinsParts(op)));
  return kernels;
}
SmallVector<SmallVector<unsigned>> resultsByKernel(ir::AttentionBackwardOp op,
                                                   const Target& target) {
  const bool isOne = joinsAll(op) || (joinsParts(op) && target.has.warpgroupMatrix) ||
                     shouldTakeTurns(op, target) || shouldHaveHeads(op);
  return resultsByKernel(op, isOne);
}

int Program::biasGradient() const {
  auto backward = dyn_cast<ir::AttentionBackwardOp>(op);
  Value gradient = backward ? backward.getDBias() : Value();
  return gradient ? static_cast<int>(cast<OpResult>(gradient).getResultNumber()) : -1;
}

unsigned Program::firstOfKeys() const {
  auto backward = dyn_cast<ir::AttentionBackwardOp>(op);
  return backward && backward.getDQuery() && (backward.getDKey() || backward.getDValue()) ? 1 : 0;
}

namespace {

/// The kernel's only operation of attention, which reads what lies in memory; null after a refusal.
Operation* attentionOf(Block& body, family::Refusal& refusal) {
  Operation* found = nullptr;
  for (Operation& op : body.without_terminator()) {
    if (!isAttention(&op))
      continue;
    if (found) {
      refusal.because(&op, "stands in a kernel of attention, which computes one attention and "
                           "elementwise math of its output; kiln-fuse divides what is more");
      return nullptr;
    }
    found = &op;
  }
  if (!found) {
    refusal.reason = "a kernel of attention computes none";
    return nullptr;
  }
  const bool isRead =
      llvm::all_of(found->getOperands(), [](Value v) { return isa<BlockArgument>(v); });
  return isRead || refusal.because(found,
                                   "reads what its kernel computes; kiln-fuse stores it before")
             ? found
             : nullptr;
}

/// Whether a kernel of a backward can compute what it asks for.
bool isOneKernel(ir::AttentionBackwardOp op, family::Refusal& refusal) {
  if (resultsByKernel(op, joinsAll(op) || joinsParts(op) || canHaveHeads(op)).size() > 1)
    return refusal.because(op, "asks for gradients that are kernels of their own: of queries, of "
                               "keys and values, of the bias; kiln-fuse divides them");
  return ir::tensorType(op.getOutputGradient()).getElementType() ==
             ir::tensorType(op.getQuery()).getElementType() ||
         refusal.because(op, "has an output's gradient of another type than the query; kiln-fuse "
                             "converts it");
}

/// What a kernel does behind an operation: it rounds and stores each result once, or computes an
/// epilogue of attention's output.
bool addResults(Program& program, ir::KernelOp kernel, family::Refusal& refusal) {
  Block& body = kernel.getBody().front();
  Operation* yield = body.getTerminator();
  const auto isStored = [&](Value result) {
    return outputOf(result, yield) >= 0 && isStoredOnce(result, yield);
  };
  auto forward = dyn_cast<ir::AttentionOp>(program.op);
  const bool hasMore = llvm::any_of(body.without_terminator(), [&](Operation& op) {
    return &op != program.op && !isa<arith::TruncFOp>(op);
  });
  if (forward && (hasMore || !isStored(forward.getOutput())) && !forward.getOutput().use_empty()) {
    program.epilogue = analyzeEpilogue(kernel, forward, refusal);
    if (!program.epilogue)
      return false;
  } else if (hasMore) {
    return refusal.because(program.op, "is a gradient of attention, whose kernel computes nothing "
                                       "else; kiln-fuse divides what is more");
  }
  for (Value result : program.op->getResults()) {
    const bool isComputedWith = program.epilogue && result == forward.getOutput();
    program.outputs.push_back(isComputedWith ? -1 : outputOf(result, yield));
    if (isComputedWith)
      continue;
    if (!isStoredOnce(result, yield))
      return refusal.because(program.op, "has a result that is used twice");
    if (program.outputs.back() < 0)
      return refusal.because(program.op,
                             "has a result that nothing reads, and its kernel stores all; return "
                             "output and lse from the function, and ask a backward for no "
                             "gradient that is not read");
  }
  return true;
}

} // namespace

std::optional<Program> analyze(ir::KernelOp kernel, family::Refusal& refusal) {
  Operation* found = attentionOf(kernel.getBody().front(), refusal);
  if (!found)
    return std::nullopt;
  auto backward = dyn_cast<ir::AttentionBackwardOp>(found);
  Program program{found,
                  kindOf(found),
                  backward ? ir::AttentionForm(backward)
                           : ir::AttentionForm(cast<ir::AttentionOp>(found)),
                  {},
                  {},
                  {},
                  {},
                  {}};
  if (backward) {
    if (!isOneKernel(backward, refusal))
      return std::nullopt;
    program.outputGradient = backward.getOutputGradient();
    program.delta = backward.getDelta();
    program.lse = backward.getLse();
  }
  if (!addResults(program, kernel, refusal))
    return std::nullopt;
  return program;
}

} // namespace kiln::attention
