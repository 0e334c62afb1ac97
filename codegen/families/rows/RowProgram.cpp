// What a kernel computes as a whole: its space, and how each of its results leaves it.
#include "codegen/families/rows/Nodes.h"
#include "kiln/kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>

using namespace mlir;
using namespace kiln::ir;

namespace kiln::rows {
namespace {

/// The same but for the order of the leading dimensions.
bool isAlike(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && (a.empty() || a.back() == b.back()) &&
         std::is_permutation(a.begin(), a.end(), b.begin());
}
class Analysis {
 public:
  Analysis(Block& block, Refusal& refusal) : block(block), refusal(refusal) {}

  std::unique_ptr<RowProgram> run() {
    program = std::make_unique<RowProgram>();
    if (!findSpace())
      return nullptr;
    nodes.emplace(block, *program, refusal);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (!addOutput(i, value))
        return nullptr;
    if (!hasOneOrder() || !fitsRunningSums())
      return nullptr;
    for (auto& node : program->nodes)
      if (node->kind == Node::Kind::rowReduce)
        program->levels = std::max(program->levels, node->level + 1);
    return std::move(program);
  }

 private:
  /// The largest shape among results and what is reduced.
  bool findSpace() {
    SmallVector<std::pair<Value, Operation*>> candidates;
    Operation* end = block.getTerminator();
    for (Value value : end->getOperands()) {
      Operation* op = value.getDefiningOp() ? value.getDefiningOp() : end;
      candidates.push_back({untransposed(value).first, op});
    }
    for (ReduceOp reduce : block.getOps<ReduceOp>())
      candidates.push_back({reduce.getInput(), reduce});
    for (PickOp pick : block.getOps<PickOp>())
      candidates.push_back({pick.getInput(), pick});
    Operation* from = end;
    for (auto [value, op] : candidates)
      if (auto shape = tensorType(value).getShape(); shape.size() > program->space.size()) {
        program->space = SmallVector<int64_t>(shape);
        from = op;
      }
    for (auto [value, op] : candidates)
      if (auto shape = tensorType(value).getShape();
          shape.size() == program->space.size() && !isAlike(shape, program->space))
        return refusal.because(op, "two iteration spaces in one kernel: " +
                                       shapeText(program->space) + " and " + shapeText(shape));
    bool hasRows = llvm::any_of(block.getOps<ReduceOp>(), [&](ReduceOp reduce) {
      return tensorType(reduce.getInput()).getShape().size() == program->space.size() &&
             !isOverEverything(reduce);
    });
    const bool noRows = program->space.size() == 1 && program->width() == 0;
    if (program->space.empty() || noRows ||
        (!hasRows && (ShapedType::isDynamic(program->width()) || program->width() > maxRowWidth)))
      program->space.push_back(1); // values of rows alone, or of one: rows of one column
    int64_t width = program->width();
    if (ShapedType::isDynamic(width))
      return refusal.because(from, "the last dimension of " + shapeText(program->space) +
                                       " is dynamic; kernels are specialised for the row width");
    if (width == 0)
      return refusal.because(from, "rows of 0 elements: the last dimension of " +
                                       shapeText(program->space) + " is 0; a row has at least 1");
    if (width > maxRowWidth)
      return refusal.because(from, "rows of " + std::to_string(width) +
                                       " elements; the row family reduces up to " +
                                       std::to_string(maxRowWidth));
    return true;
  }

  /// Sizes that are known at run time only must not have to agree because a tensor is walked in two
  /// orders.
  bool hasOneOrder() {
    if (block.getOps<TransposeOp>().empty())
      return true;
    std::map<std::pair<const void*, size_t>, int> places; // of run-time dimensions of values
    for (auto& node : program->nodes)
      for (auto [d, to] : llvm::enumerate(node->map)) {
        if (to < 0 || !tensorType(node->value).isDynamicDim(d))
          continue;
        auto found = places.try_emplace({node->value.getAsOpaquePointer(), d}, to).first;
        if (found->second != to)
          return refusal.because(node->op() ? node->op() : block.getTerminator(),
                                 "a tensor with run-time sizes is walked in two orders");
      }
    return true;
  }

  bool fitsRunningSums() {
    const int64_t most = runningSums(program->width());
    int64_t sums = 0;
    for (const Output& output : program->outputs) {
      sums += output.kind == Output::Kind::columnSum ? program->width() : 0;
      if (sums > most)
        return refusal.because(block.getTerminator()->getOperand(output.index).getDefiningOp(),
                               "running sums of " + std::to_string(sums) +
                                   " columns; a kernel has registers for " + std::to_string(most));
    }
    return true;
  }

  /// Whether what a kernel computes can be stored in this order in vectors of columns, or in runs
  /// of rows. If not it may load in runs.
  static bool storesRuns(TransposeOp op) {
    auto rank = static_cast<int64_t>(op.getPermutation().size());
    return rank < 2 || op.getPermutation().back() >= rank - 2;
  }

  /// What a result is the transpose of, and the map of the result's dimensions to those of that;
  /// the result itself where that is the better order to compute in, unless `always`.
  std::pair<Value, SmallVector<int>> untransposed(Value value, bool always = false) {
    if (auto transpose = value.getDefiningOp<TransposeOp>();
        transpose && (always || storesRuns(transpose)))
      return {transpose.getInput(), llvm::to_vector_of<int>(transpose.getPermutation())};
    return {value, identity(tensorType(value).getRank())};
  }

  bool addOutput(unsigned index, Value value) {
    Operation* at = value.getDefiningOp() ? value.getDefiningOp() : block.getTerminator();
    Value source = value; // a sum over columns may be rounded, or copied, on its way out
    while (auto* op = source.getDefiningOp())
      if (isa<arith::TruncFOp, arith::ExtFOp, TransposeOp>(op))
        source = op->getOperand(0);
      else
        break;
    auto reduce = source.getDefiningOp<ReduceOp>();
    ArrayRef<int64_t> space = program->space;
    auto [stored, map] = untransposed(value);
    if (ArrayRef<int64_t> own = tensorType(stored).getShape();
        own != space && own != space.drop_back())
      std::tie(stored, map) = untransposed(value, true);
    ArrayRef<int64_t> shape = tensorType(stored).getShape();
    Output output{Output::Kind::full, nullptr, map, index, at->getLoc()};
    if (auto kind = sumOverRows(reduce, program->space)) {
      if (reduce.getKind() != ReduceKind::sum)
        return refusal.because(reduce, "only sums are taken down the columns or over everything");
      output.kind = *kind;
      output.node =
          nodes->find(reduce.getInput(), identity(tensorType(reduce.getInput()).getRank()), reduce);
    } else if (shape == space) {
      output.node = nodes->find(stored, identity(space.size()), at);
    } else if (shape == space.drop_back()) {
      output.kind = Output::Kind::row;
      output.node = nodes->find(stored, identity(program->rank()), at);
    } else {
      return refusal.because(at, "a result of shape " + shapeText(tensorType(value).getShape()) +
                                     " is neither rows nor row values of the space " +
                                     shapeText(program->space));
    }
    program->outputs.push_back(output);
    return output.node != nullptr;
  }

  Block& block;
  Refusal& refusal;
  std::unique_ptr<RowProgram> program;
  std::optional<Nodes> nodes;
};

} // namespace

std::unique_ptr<RowProgram> analyze(Block& block, Refusal& refusal) {
  return Analysis(block, refusal).run();
}

} // namespace kiln::rows
