// The cut between forward and backward: cheapest by bytes, on graphs whose answer is known.
#include "codegen/passes/MinCut.h"
#include "test/unit/Context.h"

#include <map>

using namespace kiln;
using namespace kiln::test;

namespace {

/// x -> a -> b, x and a -> c: one operation a line.
constexpr const char* kText = R"(
  func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = math.exp %x : tensor<8xf32>
    %b = math.sin %a : tensor<8xf32>
    %c = arith.addf %x, %a : tensor<8xf32>
    return %c : tensor<8xf32>
  })";

struct Graph {
  Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module = context.parse(kText);
  std::map<char, mlir::Value> values;
  std::map<char, double> costs{{'x', 4}, {'a', 4}, {'b', 4}, {'c', 4}};

  Graph() {
    mlir::Block& block = (*module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
    values['x'] = block.getArgument(0);
    char name = 'a';
    for (mlir::Operation& op : block.without_terminator())
      values[name++] = op.getResult(0);
  }
  std::string cut(const std::string& needed, const std::string& sources = "x") {
    auto nameOf = [&](mlir::Value value) {
      for (auto& [name, known] : values)
        if (known == value)
          return name;
      return '?';
    };
    auto cost = [&](mlir::Value v) { return costs.at(nameOf(v)); };
    auto isSource = [&](mlir::Value v) { return sources.find(nameOf(v)) != std::string::npos; };
    passes::CutProblem problem{{}, cost, isSource};
    for (char name : needed)
      problem.needed.insert(values.at(name));
    std::string names;
    for (mlir::Value value : passes::cheapestCut(problem))
      names += nameOf(value);
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST(MinCut, OneSourceFeedsAll) {
  Graph graph;
  EXPECT_EQ(graph.cut("bc"), "x"); // one tensor instead of two
  EXPECT_EQ(graph.cut("x"), "x");
  EXPECT_EQ(graph.cut(""), "");
}

TEST(MinCut, CheapValuesAreSaved) {
  Graph graph;
  graph.costs['b'] = 1;
  EXPECT_EQ(graph.cut("b"), "b");
  graph.costs['c'] = 1;
  EXPECT_EQ(graph.cut("bc"), "bc"); // 2 < 4
  graph.costs['c'] = 9;
  EXPECT_EQ(graph.cut("bc"), "x"); // 4 < 1 + 9
}

TEST(MinCut, WhatCannotBeComputedAgainIsSaved) {
  Graph graph;
  EXPECT_EQ(graph.cut("b", "xa"), "a");   // a stops the walk to x
  EXPECT_EQ(graph.cut("bc", "xa"), "ax"); // b needs a, c needs x as well
  graph.costs['c'] = 3;
  EXPECT_EQ(graph.cut("bc", "xa"), "ac");
}

} // namespace
