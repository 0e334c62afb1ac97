// kiln::firstCheck: what a program passes before it serves anybody. On the host target.
#include "kiln/verify.h"
#include "test/numerics/Skip.h"
#include "test/unit/Options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fmt/format.h>
#include <map>

namespace kiln::test {
namespace {

Module moduleOf(const std::string& body) {
  return Module::parse(fmt::format("func.func @f(%x: tensor<?x96xf32>) -> tensor<?x96xf32> {{\n{}\n"
                                   "  return %y : tensor<?x96xf32>\n}}\n",
                                   body));
}

Program compileToCuda(const Module& module) {
  CompileOptions options = untilCuda();
  return Program::compile(module, options);
}

/// The program with one piece of its text replaced.
Program edited(const Program& program, std::string_view what, std::string_view with) {
  std::string text = program.text(Stage::cuda);
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << text;
  text.replace(at, what.size(), with);
  CompileOptions options = untilCuda();
  return Program::resume(Stage::cuda, text, options);
}

TEST(FirstCheck, TellsAWrongProgramFromARightOne) {
  skipIfUnavailable([] {
    const Module module = moduleOf("  %y = math.exp %x : tensor<?x96xf32>");
    const Program right = compileToCuda(module);
    EXPECT_EQ(firstCheck(right, Where::host), "");
    const std::string wrong =
        firstCheck(edited(right, "expf(", "0.01f + expf("), Where::host, &module);
    EXPECT_EQ(wrong.find("compared with fp64 at size 33: y is "), 0U) << wrong;
    EXPECT_NE(wrong.find("where fp64 gives"), std::string::npos) << wrong;
  });
}

/// An element beside the threshold may fall to the other side by rounding.
TEST(FirstCheck, PassesWhatComparesItsOwnResults) {
  skipIfUnavailable([] {
    EXPECT_EQ(
        firstCheck(compileToCuda(moduleOf(
                       "  %s = math.sin %x : tensor<?x96xf32>\n"
                       "  %c = math.cos %x : tensor<?x96xf32>\n"
                       "  %above = arith.cmpf ogt, %s, %c : tensor<?x96xf32>\n"
                       "  %y = arith.select %above, %x, %s : tensor<?x96xi1>, tensor<?x96xf32>")),
                   Where::host),
        "");
  });
}

/// Of numbers of any sign the logarithm of some is NaN, and so is their sum, right or wrong.
TEST(FirstCheck, MeetsNumbersWhereFp64HasSome) {
  const Module module =
      Module::parse("func.func @f(%x: tensor<?x96xf32>, %w: tensor<96xf32>) -> (tensor<?xf32>, "
                    "tensor<?x96xf32>) {\n"
                    "  %l = math.log %x : tensor<?x96xf32>\n"
                    "  %s = kiln.reduce sum %l dims [1] : tensor<?x96xf32> -> tensor<?xf32>\n"
                    "  %y = arith.negf %x : tensor<?x96xf32>\n"
                    "  return %s, %y : tensor<?xf32>, tensor<?x96xf32>\n}\n");
  skipIfUnavailable([&] {
    const Program right = compileToCuda(module);
    EXPECT_EQ(firstCheck(right, Where::host), "");
    RunOptions small;
    small.sizes = {9};
    const Verification verification = verify(right, small);
    EXPECT_TRUE(verification.passed);
    EXPECT_EQ(verification.outputs.at(0).numbers, 9);
    EXPECT_LT(verification.outputs.at(1).reference, 1e3);
    const std::string wrong =
        firstCheck(edited(right, "logf(", "0.01f + logf("), Where::host, &module);
    EXPECT_NE(wrong.find("where fp64 gives"), std::string::npos) << wrong;
  });
}

TEST(FirstCheck, TakesBackwards) {
  skipIfUnavailable([] {
    CompileOptions options = untilCuda();
    options.backward = true;
    const Module norm = Module::fromOp({.op = "layer_norm", .shape = {-1, 96}});
    EXPECT_EQ(firstCheck(Program::compile(norm, options), Where::host), "");
  });
}

Module attention(std::vector<std::pair<std::string, std::string>> settings,
                 std::vector<std::int64_t> shape) {
  return Module::fromOp({"attention", std::move(shape), DType::bf16, std::move(settings)});
}

/// Of queries and keys it has lengths that differ, and starts of sequences that ascend.
TEST(FirstCheck, TakesAttention) {
  skipIfUnavailable([] {
    const Module module = attention({{"causal", "last"}, {"keys", "?"}}, {-1, 2, -1, 16});
    const Program right = compileToCuda(module);
    EXPECT_EQ(firstCheck(right, Where::host), "");
    const std::string wrong =
        firstCheck(edited(right, "Causal::last", "Causal::first"), Where::host, &module);
    EXPECT_EQ(wrong.find("compared with fp64 at size 1x"), 0U) << wrong;
    EXPECT_EQ(firstCheck(compileToCuda(attention({{"sequences", "3"}, {"keys", "?"}}, {2, -1, 16})),
                         Where::host),
              "");
  });
}

/// Probabilities of a backward alone are no larger than a forward's: with lse near 0, those of
/// scores near 4 sqrt(64) = 32 would be 10^13.
TEST(FirstCheck, ABackwardMeetsProbabilities) {
  CompileOptions options = untilCuda();
  options.backward = true;
  const Module module = attention({{"scale", "1"}, {"keys", "?"}}, {-1, 2, -1, 64});
  const Program program = Program::compile(module, options);
  for (const TensorInfo& tensor : program.inputs())
    EXPECT_EQ(tensor.lowest.value_or(0), tensor.name == "lse" ? 32 : 0) << tensor.name;
  skipIfUnavailable([&] {
    RunOptions small;
    small.sizes = {1, 19, 35};
    const Verification verification = verify(program, small);
    EXPECT_TRUE(verification.passed);
    for (const OutputCheck& output : verification.outputs)
      EXPECT_LT(std::abs(output.reference), 1000) << output.name;
    EXPECT_EQ(firstCheck(program, Where::host), "");
  });
}

TEST(FirstCheck, StartsOfSequencesAscend) {
  const Program program =
      compileToCuda(attention({{"sequences", "3"}, {"keys", "?"}}, {2, -1, 16}));
  std::map<std::string, Extent> ascending;
  for (const TensorInfo& tensor : program.inputs())
    if (tensor.ascendsTo)
      ascending[tensor.name] = *tensor.ascendsTo;
  const std::map<std::string, Extent> expected = {{"query_starts", {0, 0}}, {"key_starts", {0, 1}}};
  EXPECT_EQ(ascending, expected);
}

/// An update that takes the square root of the gradient would agree if no gradient were negative.
TEST(FirstCheck, AnOptimizerMeetsNegativeGradientsAndNoNegativeState) {
  const Module module = Module::parse(R"(
func.func @adamw(%p: tensor<?xf32> {kiln.list}, %g: tensor<?xf32> {kiln.list},
    %m: tensor<?xf32> {kiln.list}, %v: tensor<?xf32> {kiln.list},
    %lr: tensor<f32>, %step: tensor<f32>, %scale: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}) {
  %p1, %m1, %v1 = kiln.adamw %p, %g, %m, %v, %lr, %step, %scale
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %p1, %m1, %v1 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
})");
  const Program program = compileToCuda(module);
  for (const auto* tensors : {&program.inputs(), &program.lists().inputs})
    for (const TensorInfo& tensor : *tensors)
      EXPECT_EQ(tensor.lowest.has_value(), tensor.name == "v" || tensor.name == "step")
          << tensor.name;
  skipIfUnavailable([&] {
    EXPECT_EQ(firstCheck(program, Where::host), "");
    const Program wrong = edited(program, "= g_c[i] *", "= fabsf(g_c[i]) *");
    EXPECT_NE(firstCheck(wrong, Where::host, &module), "");
  });
}

} // namespace
} // namespace kiln::test
