// Tracing, and the walks over a traced function.
#include "runtime/fuse/Graph.h"

#include "runtime/fuse/Space.h"

#include <fmt/format.h>
#include <map>

namespace kiln::fusion {

namespace {

/// Appends what `node` reads and then itself, once.
unsigned append(Graph& graph, std::map<const Node*, unsigned>& known,
                const std::shared_ptr<const Node>& node) {
  if (auto found = known.find(node.get()); found != known.end())
    return found->second;
  if (!node->op)
    throw Error(ErrorKind::input, "fuse: an expression of another function is used; a function may "
                                  "use its own parameters and numbers");
  Graph::Step step{node, {}};
  for (const auto& operand : node->operands) {
    step.operands.push_back(append(graph, known, operand));
    step.depends |= graph.steps[step.operands.back()].depends;
  }
  if (isComparison(*node))
    step.depends = 0;
  const bool isAlongRows = node->op->kind == Op::Kind::alongRows;
  graph.isElementwise &= !isAlongRows;
  graph.staysInPlace &= !isAlongRows || isOfNeighbours(*node);
  if (isDropout(*node))
    ++graph.dropouts;
  graph.steps.push_back(std::move(step));
  const auto index = static_cast<unsigned>(graph.steps.size() - 1);
  known.emplace(node.get(), index);
  return index;
}

} // namespace

Graph::Graph(unsigned count, FusedFunction::Trace trace, const void* function) : operands(count) {
  if (count == 0 || count > maxOperands)
    throw Error(ErrorKind::input,
                fmt::format("fuse: the function takes {} operands; 1 to {} are allowed", count,
                            maxOperands));
  std::map<const Node*, unsigned> known;
  std::vector<Expr> parameters;
  for (unsigned i = 0; i < count; ++i) {
    auto node = std::make_shared<Node>();
    node->index = i;
    known.emplace(node.get(), i);
    steps.push_back({node, {}, std::uint32_t(1) << i});
    parameters.emplace_back(std::move(node));
  }
  for (const Expr& result : trace(function, parameters)) {
    const unsigned step = append(*this, known, result.node());
    results.push_back(step);
  }
  if (results.empty())
    throw Error(ErrorKind::input, "fuse: the function returns nothing");
}

std::optional<at::ScalarType> Graph::fixedType(unsigned result) const {
  const Node& node = *steps[results[result]].node;
  if (isComparison(node))
    return at::kBool;
  if (isCast(node))
    return static_cast<at::ScalarType>(static_cast<int>(node.numbers[0]));
  return std::nullopt;
}

std::vector<at::Tensor> computeEagerly(const Graph& graph,
                                       std::span<const at::Tensor* const> operands,
                                       std::span<const at::ScalarType> dtypes, std::int64_t rank) {
  std::vector<at::Tensor> values;
  for (const Graph::Step& step : graph.steps) {
    if (!step.node->op) {
      const at::Tensor& operand = *operands[step.node->index];
      const bool isNarrow = operand.is_floating_point() && operand.element_size() < 4;
      values.push_back(isNarrow ? operand.to(at::kFloat) : operand);
      continue;
    }
    std::vector<at::Tensor> read;
    for (unsigned i : step.operands)
      read.push_back(values[i]);
    values.push_back(step.node->op->eager(*step.node, read));
  }
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < graph.results.size(); ++i) {
    at::Tensor value = values[graph.results[i]].to(dtypes[i]);
    at::DimVector sizes(value.sizes());
    while (static_cast<std::int64_t>(sizes.size()) < rank)
      sizes.insert(sizes.begin(), 1);
    results.push_back(value.view(sizes));
  }
  return results;
}

} // namespace kiln::fusion
