// Which pass over a tile computes what, and what is kept between passes.
#include "codegen/families/rows/PassPlan.h"
#include "codegen/family/Elementary.h"
#include "test/unit/Context.h"

using namespace kiln;
using namespace kiln::test;

namespace {

struct Planned {
  Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<rows::RowProgram> program;
  std::vector<rows::Pass> passes;
  rows::Refusal refusal;

  explicit Planned(const std::string& body, const std::string& result = "tensor<?x8xf32>")
      : module(context.parse("func.func @f(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> " + result +
                             " {\n" + body + "}")) {
    mlir::Block& block = (*module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
    family::decomposeNamedOps(block);
    program = rows::analyze(block, refusal);
    if (program)
      passes = rows::planPasses(*program);
  }
};

TEST(PassPlan, OnePassWithoutReductions) {
  Planned plan("%a = math.exp %x : tensor<?x8xf32>\nreturn %a : tensor<?x8xf32>");
  ASSERT_EQ(plan.passes.size(), 1u);
  EXPECT_EQ(plan.passes[0].outputs.size(), 1u);
  EXPECT_TRUE(plan.passes[0].reduces.empty());
}

TEST(PassPlan, LayerNormTakesThreePassesAndKeepsNothing) {
  Planned plan("%a, %m, %r = kiln.layer_norm %x : (tensor<?x8xf32>) -> (tensor<?x8xf32>, "
               "tensor<?xf32>, tensor<?xf32>)\nreturn %a : tensor<?x8xf32>");
  ASSERT_EQ(plan.passes.size(), 3u); // mean, what it left over and variance, result
  EXPECT_EQ(plan.passes[0].reduces.size(), 1u);
  EXPECT_EQ(plan.passes[1].reduces.size(), 2u);
  EXPECT_EQ(plan.passes[2].outputs.size(), 1u);
  for (const rows::Pass& pass : plan.passes) // x - mean is computed again
    EXPECT_TRUE(pass.kept.empty());
}

TEST(PassPlan, SoftmaxComputesItsExponentialsAgain) {
  Planned plan("%a = kiln.softmax %x : tensor<?x8xf32> -> tensor<?x8xf32>\n"
               "return %a : tensor<?x8xf32>");
  ASSERT_EQ(plan.passes.size(), 3u); // maximum, sum, result
  for (const rows::Pass& pass : plan.passes)
    EXPECT_TRUE(pass.kept.empty());
}

TEST(PassPlan, CostlyValuesAreKept) {
  Planned plan("%e = math.erf %x : tensor<?x8xf32>\n"
               "%s = kiln.reduce sum %e dims [1] : tensor<?x8xf32> -> tensor<?xf32>\n"
               "%b = kiln.broadcast %s dims [0] like %x : tensor<?xf32>, tensor<?x8xf32> -> "
               "tensor<?x8xf32>\n%a = arith.addf %e, %b : tensor<?x8xf32>\n"
               "return %a : tensor<?x8xf32>");
  ASSERT_EQ(plan.passes.size(), 2u);
  ASSERT_EQ(plan.passes[0].kept.size(), 1u);
  EXPECT_EQ(plan.passes[0].kept[0]->op()->getName().getStringRef(), "math.erf");
}

/// The sum is kept, not the random numbers that it is made of.
TEST(PassPlan, KeepsWhatIsMadeOfSomethingCostly) {
  Planned plan("%s = arith.constant dense<7> : tensor<i64>\n"
               "%d = kiln.dropout %x, %s, %s p 0.1 : tensor<?x8xf32> -> tensor<?x8xf32>\n"
               "%z = arith.subf %d, %y : tensor<?x8xf32>\n"
               "%a, %m, %r = kiln.layer_norm %z : (tensor<?x8xf32>) -> (tensor<?x8xf32>, "
               "tensor<?xf32>, tensor<?xf32>)\nreturn %a : tensor<?x8xf32>");
  ASSERT_EQ(plan.passes.size(), 3u);
  ASSERT_EQ(plan.passes[0].kept.size(), 1u);
  EXPECT_EQ(plan.passes[0].kept[0]->op()->getName().getStringRef(), "arith.subf");
  EXPECT_TRUE(plan.passes[1].kept.empty());
  EXPECT_LT(plan.passes[1].operations, plan.passes[0].operations);
}

TEST(PassPlan, IndependentReductionsShareAPass) {
  Planned plan("%a = kiln.reduce sum %x dims [1] : tensor<?x8xf32> -> tensor<?xf32>\n"
               "%b = kiln.reduce max %y dims [1] : tensor<?x8xf32> -> tensor<?xf32>\n"
               "%c = arith.addf %a, %b : tensor<?xf32>\nreturn %c : tensor<?xf32>",
               "tensor<?xf32>");
  ASSERT_EQ(plan.passes.size(), 2u);
  EXPECT_EQ(plan.passes[0].reduces.size(), 2u);
  EXPECT_TRUE(plan.passes[1].outputs.empty()); // a row value is stored without a pass
}

TEST(RowProgram, ValuesAreFunctionsOfRowAndColumn) {
  Planned plan("%m = kiln.reduce mean %x dims [1] : tensor<?x8xf32> -> tensor<?xf32>\n"
               "%b = kiln.broadcast %m dims [0] like %x : tensor<?xf32>, tensor<?x8xf32> -> "
               "tensor<?x8xf32>\n%a = arith.subf %x, %b : tensor<?x8xf32>\n"
               "return %a : tensor<?x8xf32>");
  ASSERT_TRUE(plan.program);
  EXPECT_EQ(plan.program->width(), 8);
  EXPECT_EQ(plan.program->rank(), 1u);
  EXPECT_EQ(plan.program->levels, 2);
  int reductions = 0;
  for (auto& node : plan.program->nodes)
    if (node->kind == rows::Node::Kind::rowReduce) {
      ++reductions;
      EXPECT_TRUE(node->perRow && !node->perColumn);
      EXPECT_EQ(node->level, 1);
    }
  EXPECT_EQ(reductions, 1); // the broadcast makes no node
}

TEST(RowProgram, EqualRandomNumbersAreOneNode) {
  auto count = [](const std::string& offset) {
    Planned plan("%s = arith.constant dense<7> : tensor<i64>\n"
                 "%o = arith.constant dense<8> : tensor<i64>\n"
                 "%u = kiln.random %s, %s like %x : tensor<?x8xf32> -> tensor<?x8xf32>\n"
                 "%v = kiln.random %s, " +
                 offset +
                 " like %y : tensor<?x8xf32> -> tensor<?x8xf32>\n"
                 "%a = arith.addf %u, %v : tensor<?x8xf32>\nreturn %a : tensor<?x8xf32>");
    return llvm::count_if(plan.program->nodes,
                          [](auto& node) { return node->kind == rows::Node::Kind::random; });
  };
  EXPECT_EQ(count("%s"), 1); // whatever gives them their sizes
  EXPECT_EQ(count("%o"), 2);
}

} // namespace
