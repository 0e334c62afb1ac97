// See PassPlan.h.
#include "codegen/rows/PassPlan.h"

using namespace mlir;

namespace kiln::rows {

/// Worth keeping rather than computing again in the next pass.
static bool isCostly(const Node* n) {
  if (n->kind != Node::Kind::scalar || !n->perColumn)
    return false;
  StringRef name = n->op()->getName().getStringRef();
  if (name == "math.exp" || name == "math.fma") // a few instructions
    return false;
  return name == "arith.divf" || name.starts_with("math.");
}

/// Walks what `targets` need; a costly value that an earlier pass computed is kept there.
static void visit(SmallVector<Node*> targets, int level, std::vector<Pass>& passes,
                  llvm::DenseMap<Node*, int>& computedIn, bool keeps) {
  llvm::DenseSet<Node*> seen;
  while (!targets.empty()) {
    Node* node = targets.pop_back_val();
    if (node->kind == Node::Kind::input && node->perColumn && !node->perRow)
      passes[level].columns.insert(node);
    if (!node->perColumn || node->kind != Node::Kind::scalar || !seen.insert(node).second)
      continue;
    if (keeps && isCostly(node)) {
      auto [found, first] = computedIn.try_emplace(node, level);
      if (!first && found->second < level) {
        passes[found->second].kept.insert(node);
        continue;
      }
    }
    passes[level].operations += isCostly(node) ? 8 : 1;
    llvm::append_range(targets, node->operands);
  }
}

std::vector<Pass> planPasses(const RowProgram& program, bool keeps) {
  std::vector<Pass> passes(program.levels);
  for (auto& node : program.nodes)
    if (node->kind == Node::Kind::rowReduce)
      passes[node->operands[0]->level].reduces.push_back(node.get());
  for (const Output& output : program.outputs)
    if (output.kind != Output::Kind::row && output.kind != Output::Kind::rowSum)
      passes[output.node->level].outputs.push_back(&output);
  llvm::DenseMap<Node*, int> computedIn;
  for (int level = 0; level < program.levels; ++level) {
    SmallVector<Node*> targets;
    for (Node* reduce : passes[level].reduces)
      targets.push_back(reduce->operands[0]);
    for (const Output* output : passes[level].outputs)
      targets.push_back(output->node);
    passes[level].operations += targets.size();
    visit(std::move(targets), level, passes, computedIn, keeps);
  }
  return passes;
}

} // namespace kiln::rows
