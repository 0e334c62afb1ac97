// See MinCut.h.
#include "codegen/passes/MinCut.h"

#include "codegen/passes/FusionRequests.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

using namespace mlir;

namespace kiln::passes {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Network {
  struct Edge {
    int to;
    double capacity;
    size_t reverse;
  };
  std::vector<std::vector<Edge>> edges;

  int addNode() {
    edges.emplace_back();
    return edges.size() - 1;
  }
  void addEdge(int from, int to, double capacity) {
    edges[from].push_back({to, capacity, edges[to].size()});
    edges[to].push_back({from, 0.0, edges[from].size() - 1});
  }

  /// Nodes reachable with capacity left, with the edge that led there.
  std::vector<Edge*> reach(int source) {
    std::vector<Edge*> by(edges.size(), nullptr);
    static Edge start{};
    by[source] = &start;
    std::deque<int> queue{source};
    while (!queue.empty()) {
      int node = queue.front();
      queue.pop_front();
      for (Edge& edge : edges[node])
        if (edge.capacity > 0 && !by[edge.to]) {
          by[edge.to] = &edge;
          queue.push_back(edge.to);
        }
    }
    return by;
  }

  void saturate(int source, int sink) {
    while (true) {
      std::vector<Edge*> by = reach(source);
      if (!by[sink])
        return;
      double room = kUnlimited;
      auto walk = [&](auto&& visit) {
        for (int node = sink; node != source;) {
          Edge* edge = by[node];
          node = edges[edge->to][edge->reverse].to;
          visit(*edge);
        }
      };
      walk([&](Edge& edge) { room = std::min(room, edge.capacity); });
      walk([&](Edge& edge) {
        edge.capacity -= room;
        edges[edge.to][edge.reverse].capacity += room;
      });
    }
  }
};

} // namespace

llvm::SetVector<Value> cheapestCut(const CutProblem& problem) {
  Network network;
  const int source = network.addNode(), sink = network.addNode();
  llvm::DenseMap<Value, std::pair<int, int>> nodes; // in, out
  std::vector<Value> order;
  SmallVector<Value> work(problem.needed.begin(), problem.needed.end());
  auto visit = [&](Value value) {
    auto [found, added] = nodes.try_emplace(value);
    if (added) {
      found->second = {network.addNode(), network.addNode()};
      work.push_back(value);
    }
    return found->second;
  };
  for (Value value : problem.needed)
    network.addEdge(visit(value).second, sink, kUnlimited);
  llvm::DenseSet<Value> done;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!done.insert(value).second)
      continue;
    auto [in, out] = visit(value);
    order.push_back(value);
    network.addEdge(in, out, problem.cost(value));
    if (problem.isSource(value))
      network.addEdge(source, in, kUnlimited);
    else
      for (Value operand : value.getDefiningOp()->getOperands()) {
        int from = visit(operand).second;
        network.addEdge(from, nodes[value].first, kUnlimited);
      }
  }
  network.saturate(source, sink);
  auto reached = network.reach(source);
  llvm::SetVector<Value> cut;
  for (Value value : order)
    if (reached[nodes[value].first] && !reached[nodes[value].second])
      cut.insert(value);
  return cut;
}

llvm::DenseSet<Value> farFromSources(Block& block, const llvm::DenseSet<Value>& backward,
                                     llvm::function_ref<bool(Value)> isSource) {
  constexpr int kMostSteps = 64, kMore = 8;
  llvm::DenseMap<Value, int> before, behind;
  for (Operation& op : llvm::reverse(block.without_terminator()))
    for (Value operand : op.getOperands())
      for (Value result : op.getResults())
        if (!backward.contains(result))
          behind[operand] = std::max(behind.lookup(operand), behind.lookup(result) + 1);
  llvm::DenseSet<Value> far;
  for (Operation& op : block.without_terminator()) {
    int most = 0;
    for (Value operand : op.getOperands())
      most = std::max(most, before.lookup(operand));
    for (Value result : op.getResults()) {
      if (isSource(result) || backward.contains(result))
        continue;
      const bool isFar =
          most >= kMostSteps && behind.lookup(result) >= kMore && !isRematerializable(&op);
      before[result] = isFar ? 0 : most + 1;
      if (isFar)
        far.insert(result);
    }
  }
  return far;
}

} // namespace kiln::passes
