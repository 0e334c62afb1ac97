// See PassPlan.h.
#include "codegen/families/rows/PassPlan.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace kiln::rows {

/// Computed for each element, in every pass that needs it and does not find it kept.
static bool isComputed(const Node* n) {
  return n->perColumn && (n->kind == Node::Kind::scalar || n->kind == Node::Kind::random);
}

int operationsOf(const Node* n) {
  if (n->kind == Node::Kind::random)
    return kRandomOperations;
  StringRef name = n->op()->getName().getStringRef();
  if (auto exp = dyn_cast<math::ExpOp>(n->op()))
    return exp.getFastmath() == arith::FastMathFlags::none ? 4 : 2;
  return name == "arith.divf" || (name.starts_with("math.") && name != "math.fma") ? 8 : 1;
}
/// As many are worth keeping a value for, rather than computing it again.
static constexpr int kCostly = 8;

class Planner {
 public:
  Planner(std::vector<Pass>& passes, bool keeps) : passes(passes), keeps(keeps) {}

  /// Walks what `targets` need. A value that an earlier pass computed is kept there if computing it
  /// again would cost much: itself, or something it is made of and that is not kept.
  void visit(SmallVector<Node*> targets, int level) {
    llvm::DenseSet<Node*> seen;
    while (!targets.empty()) {
      Node* node = targets.pop_back_val();
      if (node->kind == Node::Kind::input && node->perColumn && !node->perRow)
        passes[level].columns.insert(node);
      if (!isComputed(node) || !seen.insert(node).second)
        continue;
      int first = computedIn.try_emplace(node, level).first->second;
      if (keeps && first < level && isCostly(node)) {
        passes[first].kept.insert(node);
        continue;
      }
      (node->perRow ? passes[level].operations : passes[level].columnOperations) +=
          operationsOf(node);
      const bool isScalar = node->kind == Node::Kind::scalar;
      passes[level].erfs += isScalar && isa<math::ErfOp>(node->op());
      passes[level].roots += isScalar && isa<math::SqrtOp>(node->op());
      llvm::append_range(targets, node->operands);
    }
  }

 private:
  bool isKept(Node* node) const {
    return llvm::any_of(passes, [&](const Pass& pass) { return pass.kept.contains(node); });
  }
  bool isCostly(Node* node) const {
    SmallVector<Node*> work{node};
    llvm::DenseSet<Node*> seen;
    while (!work.empty()) {
      Node* part = work.pop_back_val();
      if (!isComputed(part) || !seen.insert(part).second || (part != node && isKept(part)))
        continue;
      if (operationsOf(part) >= kCostly)
        return true;
      llvm::append_range(work, part->operands);
    }
    return false;
  }

  std::vector<Pass>& passes;
  bool keeps;
  llvm::DenseMap<Node*, int> computedIn; // the first pass
};

std::vector<Pass> planPasses(const RowProgram& program, bool keeps) {
  std::vector<Pass> passes(program.levels);
  for (auto& node : program.nodes)
    if (node->kind == Node::Kind::rowReduce)
      passes[node->operands[0]->level].reduces.push_back(node.get());
  for (const Output& output : program.outputs)
    if (output.kind != Output::Kind::row && output.kind != Output::Kind::rowSum)
      passes[output.node->level].outputs.push_back(&output);
  Planner planner(passes, keeps);
  for (int level = 0; level < program.levels; ++level) {
    SmallVector<Node*> targets;
    for (Node* reduce : passes[level].reduces)
      targets.push_back(reduce->operands[0]);
    for (const Output* output : passes[level].outputs)
      targets.push_back(output->node);
    passes[level].operations += targets.size();
    planner.visit(std::move(targets), level);
  }
  return passes;
}

int mostWaiting(const RowProgram& program) {
  llvm::DenseMap<const Node*, size_t> lastReader;
  for (const auto& [at, node] : llvm::enumerate(program.nodes))
    for (const Node* operand : node->operands)
      lastReader[operand] = at;
  std::vector<int> ending(program.nodes.size(), 0);
  int waiting = 0, most = 0;
  for (const auto& [at, node] : llvm::enumerate(program.nodes)) {
    waiting -= ending[at];
    auto last = lastReader.find(node.get());
    if (!isComputed(node.get()) || last == lastReader.end() || last->second == at + 1)
      continue;
    ++ending[last->second];
    most = std::max(most, ++waiting);
  }
  return most;
}

} // namespace kiln::rows
