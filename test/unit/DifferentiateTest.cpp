// Derived backwards against central differences, both in fp64: every op and every scalar operation
// that has a gradient rule.
#include "dialect/Scalar.h"
#include "test/unit/Derived.h"

#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

Tensor64 random(mlir::RankedTensorType type, std::mt19937_64& engine, double low, double high) {
  Tensor64 tensor = ir::makeTensor64(type.getShape());
  std::uniform_real_distribution<double> uniform(low, high);
  mlir::Type element = type.getElementType();
  for (double& value : tensor.data)
    value = element.isInteger(1)  ? engine() % 2
            : element.isInteger() ? engine() % 4
                                  : uniform(engine);
  return tensor;
}

void checkAgainstDifferences(const std::string& text, double low = 0.3, double high = 1.7) {
  SCOPED_TRACE(text);
  Derived f(text);
  ASSERT_TRUE(f.derived);
  std::mt19937_64 engine(7);
  auto function = f.function("f");
  Tensors inputs;
  std::map<std::string, Tensor64> cotangents;
  for (mlir::Type type : function.getArgumentTypes())
    inputs.push_back(random(llvm::cast<mlir::RankedTensorType>(type), engine, low, high));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    cotangents["d" + Derived::resultName(function, i)] =
        random(llvm::cast<mlir::RankedTensorType>(function.getResultTypes()[i]), engine, -1, 1);
  // Constants of rules are held in fp32: 6e-8 of them is lost.
  f.expectDifferences(inputs, cotangents, 2e-6);
}

std::string function(const std::string& signature, const std::string& body) {
  return "func.func @f(" + signature + " {\n" + body + "\n}\n";
}

TEST(Differences, LayerNorm) {
  std::string x = "%x: tensor<3x5xf32> {kiln.name = \"x\"}", g = "%g: tensor<5xf32>",
              y = "tensor<3x5xf32>", s = "tensor<3xf32>";
  checkAgainstDifferences(function(
      x + ", " + g + ", %b: tensor<5xf32>) -> (" + y + ", " + s + ", " + s + ")",
      "%y, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<3x5xf32>, tensor<5xf32>, tensor<5xf32>) "
      "-> (tensor<3x5xf32>, tensor<3xf32>, tensor<3xf32>)\n"
      "return %y, %m, %r : tensor<3x5xf32>, tensor<3xf32>, tensor<3xf32>"));
  checkAgainstDifferences(
      function(x + ") -> " + y,
               "%y, %m, %r = kiln.layer_norm %x {eps = 0.01 : f32} : (tensor<3x5xf32>) "
               "-> (tensor<3x5xf32>, tensor<3xf32>, tensor<3xf32>)\nreturn %y : tensor<3x5xf32>"));
}

TEST(Differences, RmsNorm) {
  checkAgainstDifferences(
      function("%x: tensor<3x5xf32>, %g: tensor<5xf32>) -> (tensor<3x5xf32>, tensor<3xf32>)",
               "%y, %r = kiln.rms_norm %x, %g : (tensor<3x5xf32>, tensor<5xf32>) -> "
               "(tensor<3x5xf32>, tensor<3xf32>)\n"
               "return %y, %r : tensor<3x5xf32>, tensor<3xf32>"));
}

TEST(Differences, Softmax) {
  checkAgainstDifferences(
      function("%x: tensor<3x5xf32>, %b: tensor<3x5xf32>, %m: tensor<3x5xi1>) -> tensor<3x5xf32>",
               "%y = kiln.softmax %x bias %b mask %m {scale = 0.5 : f32} : tensor<3x5xf32>, "
               "tensor<3x5xf32>, tensor<3x5xi1> -> tensor<3x5xf32>\nreturn %y : tensor<3x5xf32>"));
  checkAgainstDifferences(function("%x: tensor<2x7xf32>) -> tensor<2x7xf32>",
                                   "%y = kiln.softmax %x : tensor<2x7xf32> -> tensor<2x7xf32>\n"
                                   "return %y : tensor<2x7xf32>"));
}

TEST(Differences, Activations) {
  for (const char* op : {"sigmoid %x", "silu %x", "gelu %x", "gelu %x approximate tanh"})
    for (double low : {-6.0, -1.5, 0.5, 4.5})
      checkAgainstDifferences(
          function("%x: tensor<3x5xf32>) -> tensor<3x5xf32>",
                   fmt::format("%y = kiln.{} : tensor<3x5xf32> -> tensor<3x5xf32>\n"
                               "return %y : tensor<3x5xf32>",
                               op)),
          low, low + 1.5);
}

TEST(Differences, GatedActivations) {
  for (const char* op : {"swiglu %g, %x", "geglu %g, %x", "geglu %g, %x approximate tanh"})
    for (double low : {-1.5, 0.5})
      checkAgainstDifferences(
          function("%g: tensor<7xf32>, %x: tensor<7xf32>) -> tensor<7xf32>",
                   fmt::format("%y = kiln.{} : tensor<7xf32>, tensor<7xf32> -> tensor<7xf32>\n"
                               "return %y : tensor<7xf32>",
                               op)),
          low, low + 1.5);
}

TEST(Differences, LogSoftmax) {
  checkAgainstDifferences(function("%x: tensor<3x5xf32>) -> tensor<3x5xf32>",
                                   "%y = kiln.log_softmax %x : tensor<3x5xf32> -> tensor<3x5xf32>\n"
                                   "return %y : tensor<3x5xf32>"));
}

/// Targets are drawn from 0 to 3, so that all of them are classes.
std::string crossEntropyOf(int classes, const std::string& options) {
  return function(fmt::format("%x: tensor<6x{}xf32>, %t: tensor<6xi32>) -> (tensor<6xf32>, "
                              "tensor<6xf32>)",
                              classes),
                  fmt::format("%l, %s = kiln.cross_entropy %x, %t {} : (tensor<6x{}xf32>, "
                              "tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)\n"
                              "return %l, %s : tensor<6xf32>, tensor<6xf32>",
                              options, classes));
}

TEST(Differences, CrossEntropy) {
  checkAgainstDifferences(crossEntropyOf(5, ""));
  checkAgainstDifferences(crossEntropyOf(4, "{ignore_index = 2 : i64}"));
  checkAgainstDifferences(crossEntropyOf(5, "{label_smoothing = 0.25 : f32}"));
  checkAgainstDifferences(crossEntropyOf(
      7, "{ignore_index = 1 : i64, label_smoothing = 0.125 : f32, z_loss = 0.5 : f32}"));
}

/// One function with forward and backward gives what the two give.
TEST(Together, GivesResultsAndGradients) {
  const std::string text = crossEntropyOf(5, "{z_loss = 0.5 : f32}");
  Derived apart(text), both(text, true);
  ASSERT_TRUE(apart.derived && both.derived);
  EXPECT_FALSE(both.function("f_backward"));
  auto together = both.function("f_with_gradient");
  std::mt19937_64 engine(11);
  Tensors inputs;
  for (mlir::Type type : together.getArgumentTypes())
    inputs.push_back(random(llvm::cast<mlir::RankedTensorType>(type), engine, -1, 1));
  Tensors all = both.run(together, inputs);
  Tensors results = apart.run(apart.function("f"), {inputs[0], inputs[1]});
  auto gradients =
      apart.gradients({inputs[0], inputs[1]}, {{"dout0", inputs[2]}, {"dout1", inputs[3]}});
  ASSERT_EQ(all.size(), 3u);
  for (int i = 0; i < 2; ++i)
    for (std::int64_t k = 0; k < all[i].size(); ++k)
      EXPECT_NEAR(all[i].data[k], results[i].data[k], 1e-6);
  for (std::int64_t k = 0; k < all[2].size(); ++k)
    EXPECT_NEAR(all[2].data[k], gradients.at("din0").data[k], 1e-6);
}

TEST(Differences, Dropout) {
  for (const char* how : {"p 0.4", "p 0.4 shared [0]", "p 0.4 shared [1]", "p 0.0", "p 1.0"})
    checkAgainstDifferences(function(
        "%x: tensor<5x4xf32>, %s: tensor<i64>, %o: tensor<i64>) -> tensor<5x4xf32>",
        std::string("%q = arith.mulf %x, %x : tensor<5x4xf32>\n%y = kiln.dropout %q, %s, %o ") +
            how + " : tensor<5x4xf32> -> tensor<5x4xf32>\nreturn %y : tensor<5x4xf32>"));
}

TEST(Differences, Rope) {
  for (const char* how : {"half_split", "interleaved", "half_split base 100.0 width 4",
                          "interleaved width 2 inverse"})
    checkAgainstDifferences(function(
        "%x: tensor<3x2x6xf32>, %p: tensor<3xi32>) -> tensor<3x2x6xf32>",
        std::string("%q = arith.mulf %x, %x : tensor<3x2x6xf32>\n%y = kiln.rope %q, %p dims [0] ") +
            how +
            " : tensor<3x2x6xf32>, tensor<3xi32> -> tensor<3x2x6xf32>\n"
            "return %y : tensor<3x2x6xf32>"));
}

TEST(Differences, Transpose) {
  checkAgainstDifferences(
      function("%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32>",
               "%q = arith.mulf %x, %x : tensor<2x3x4xf32>\n"
               "%y = kiln.transpose %q [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>\n"
               "return %y : tensor<4x2x3xf32>"));
}

TEST(Differences, Partner) {
  for (const char* pairs : {"half_split, 6", "interleaved, 4"})
    checkAgainstDifferences(
        function("%x: tensor<3x6xf32>) -> tensor<3x6xf32>",
                 std::string("%q = kiln.partner %x pairs <") + pairs +
                     "> : tensor<3x6xf32> -> tensor<3x6xf32>\n%y = arith.mulf %q, %x : "
                     "tensor<3x6xf32>\nreturn %y : tensor<3x6xf32>"));
}

TEST(Differences, MaskFromRandomNumbers) {
  checkAgainstDifferences(
      function("%x: tensor<5x4xf32>, %s: tensor<i64>, %o: tensor<i64>) -> tensor<5x4xf32>",
               "%u = kiln.random %s, %o like %x : tensor<5x4xf32> -> tensor<5x4xf32>\n"
               "%k = arith.cmpf olt, %u, %x : tensor<5x4xf32>\n"
               "%q = arith.mulf %x, %u : tensor<5x4xf32>\n"
               "%y = arith.select %k, %q, %x : tensor<5x4xi1>, tensor<5x4xf32>\n"
               "return %y : tensor<5x4xf32>"));
}

TEST(Differences, Reduce) {
  struct Way {
    const char *dims, *type;
  };
  for (const char* kind : {"sum", "mean", "max", "min"})
    for (const Way& way : {Way{"[2]", "tensor<2x3xf32>"}, Way{"[0, 1]", "tensor<4xf32>"},
                           Way{"[1]", "tensor<2x4xf32>"}, Way{"[0, 1, 2]", "tensor<f32>"}})
      checkAgainstDifferences(
          function(fmt::format("%x: tensor<2x3x4xf32>) -> {}", way.type),
                   fmt::format("%y = kiln.reduce {0} %x dims {1} : tensor<2x3x4xf32> -> {2}\n"
                               "return %y : {2}",
                               kind, way.dims, way.type)));
}

TEST(Differences, Broadcast) {
  struct Way {
    const char *from, *dims;
  };
  for (const Way& way : {Way{"tensor<4xf32>", "[2]"}, Way{"tensor<2x3xf32>", "[0, 1]"},
                         Way{"tensor<2x1x4xf32>", "[0, 1, 2]"}, Way{"tensor<1x1xf32>", "[0, 2]"},
                         Way{"tensor<f32>", "[]"}})
    checkAgainstDifferences(
        function(fmt::format("%x: {}) -> tensor<2x3x4xf32>", way.from),
                 fmt::format("%y = kiln.broadcast %x dims {1} : {0} -> tensor<2x3x4xf32>\n"
                             "return %y : tensor<2x3x4xf32>",
                             way.from, way.dims)));
}

/// What is computed again begins at values that were saved on the way.
TEST(Differences, LongChain) {
  std::string text, last = "%x";
  for (int i = 0; i < 150; ++i) {
    text += fmt::format("%s{0} = math.sin {1} : tensor<2x3xf32>\n"
                        "%v{0} = arith.addf %s{0}, %x : tensor<2x3xf32>\n",
                        i, last);
    last = fmt::format("%v{}", i);
  }
  const std::string all = function("%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
                                   text + "return " + last + " : tensor<2x3xf32>");
  Derived f(all);
  ASSERT_TRUE(f.derived);
  EXPECT_EQ(f.function("f_forward").getNumResults(), 5U); // 300 steps
  checkAgainstDifferences(all);
}

TEST(Differences, ChainWithSavedAndRecomputedValues) {
  checkAgainstDifferences(function(
      "%x: tensor<3x4xf32> {kiln.name = \"x\"}, %c: tensor<4xf32>) -> (tensor<3x4xf32>, "
      "tensor<3xf32>)",
      "%t = math.tanh %x : tensor<3x4xf32>\n"
      "%m = kiln.reduce max %t dims [1] : tensor<3x4xf32> -> tensor<3xf32>\n"
      "%mb = kiln.broadcast %m dims [0] : tensor<3xf32> -> tensor<3x4xf32>\n"
      "%cb = kiln.broadcast %c dims [1] : tensor<4xf32> -> tensor<3x4xf32>\n"
      "%u = arith.mulf %t, %mb : tensor<3x4xf32>\n%v = arith.divf %u, %cb : tensor<3x4xf32>\n"
      "%s = kiln.softmax %v : tensor<3x4xf32> -> tensor<3x4xf32>\n"
      "%w = arith.mulf %s, %x : tensor<3x4xf32>\n"
      "%k = kiln.reduce sum %w dims [1] : tensor<3x4xf32> -> tensor<3xf32>\n"
      "return %w, %k : tensor<3x4xf32>, tensor<3xf32>"));
}

/// One line of text for a scalar operation of %x, %y, %z, and whether its result is a float.
std::string lineOf(const std::string& name, unsigned operands) {
  if (name == "arith.extf")
    return "%h = arith.truncf %x : tensor<6xf32> to tensor<6xbf16>\n"
           "%r = arith.extf %h : tensor<6xbf16> to tensor<6xf32>";
  if (name == "arith.truncf")
    return "%r = arith.truncf %x : tensor<6xf32> to tensor<6xf16>";
  if (name == "arith.select")
    return "%r = arith.select %m, %x, %y : tensor<6xi1>, tensor<6xf32>";
  std::string list = operands == 1 ? "%x" : operands == 2 ? "%x, %y" : "%x, %y, %z";
  return "%r = " + name + " " + list + " : tensor<6xf32>";
}

class ScalarGradient : public testing::TestWithParam<ir::ScalarOp> {};

TEST_P(ScalarGradient, AgreesWithDifferences) {
  const ir::ScalarOp& op = GetParam();
  std::string name = op.name.str();
  static const std::set<std::string> ternary{"arith.select", "math.fma"};
  static const std::set<std::string> binary{"arith.addf",    "arith.subf",     "arith.mulf",
                                            "arith.divf",    "arith.maximumf", "arith.minimumf",
                                            "arith.maxnumf", "arith.minnumf",  "math.powf"};
  unsigned operands = ternary.contains(name) ? 3 : binary.contains(name) ? 2 : 1;
  std::string result = name == "arith.truncf" ? "tensor<6xf16>" : "tensor<6xf32>";
  std::string text = function("%x: tensor<6xf32>, %y: tensor<6xf32>, %z: tensor<6xf32>, %m: "
                              "tensor<6xi1>) -> " +
                                  result,
                              lineOf(name, operands) + "\nreturn %r : " + result);
  if (!op.gradient) {
    EXPECT_FALSE(Derived(text).derived) << name << " has no rule";
    return;
  }
  checkAgainstDifferences(text);
  if (name == "math.absf" || name == "math.erf" || name == "math.tanh" || name == "arith.negf")
    checkAgainstDifferences(text, -1.7, -0.3);
}

/// Operations on integers and comparisons have no float to differentiate.
std::vector<ir::ScalarOp> floatOperations() {
  static const std::set<std::string> discrete{
      "arith.cmpf",  "arith.cmpi",  "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.bitcast",
      "arith.extsi", "arith.extui", "arith.addi",   "arith.subi",   "arith.muli",   "arith.andi",
      "arith.ori",   "arith.xori",  "math.floor",   "math.ceil"};
  std::vector<ir::ScalarOp> operations;
  for (const ir::ScalarOp& op : ir::scalarOps())
    if (!discrete.contains(op.name.str()))
      operations.push_back(op);
  return operations;
}

INSTANTIATE_TEST_SUITE_P(Scalar, ScalarGradient, testing::ValuesIn(floatOperations()),
                         [](const auto& info) {
                           std::string name = info.param.name.str();
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

} // namespace
