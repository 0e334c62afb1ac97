// What rounding may change, where numbers cancel: as much as it does, in every row, and no more
// anywhere else.
#include "codegen/program/Compare.h"
#include "kiln/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>

namespace kiln::test {
namespace {

constexpr std::int64_t rows = 200, width = 3;

/// Of a function of x with the result y; row r of x holds `value(r)`.
template <class OfRow> program::Expected expect(const std::string& body, OfRow value) {
  const std::string type = fmt::format("tensor<?x{}xf32>", width);
  const Module module = Module::parse(
      fmt::format("func.func @f(%x: {0}) -> {0} {{\n{1}  return %y : {0}\n}}\n", type, body));
  ir::Tensor64 x = ir::makeTensor64({rows, width});
  for (std::int64_t r = 0; r < rows; ++r)
    std::fill_n(x.row(r), width, value(r));
  TensorInfo info;
  info.name = "y";
  info.dtype = DType::f32;
  return program::expect(module, "f", {x}, std::span(&info, 1));
}

/// Of a softmax that is added up to one: that noise cancels in some rows is no wonder.
TEST(Compare, RowsThatCancelMayKeepWhatIsLeftOfRounding) {
  const program::Expected expected =
      expect("  %p = kiln.softmax %x : tensor<?x3xf32> -> tensor<?x3xf32>\n"
             "  %s = kiln.reduce sum %p dims [1] : tensor<?x3xf32> -> tensor<?xf32>\n"
             "  %one = kiln.broadcast %s dims [0] like %x : tensor<?xf32>, tensor<?x3xf32> -> "
             "tensor<?x3xf32>\n"
             "  %half = arith.constant dense<0.5> : tensor<3xf32>\n"
             "  %h = kiln.broadcast %half dims [1] like %x : tensor<3xf32>, tensor<?x3xf32> -> "
             "tensor<?x3xf32>\n"
             "  %a = arith.mulf %one, %h : tensor<?x3xf32>\n"
             "  %y = arith.subf %a, %h : tensor<?x3xf32>\n",
             [](std::int64_t r) { return 0.01 * double(r); });
  EXPECT_LT(std::abs(std::ranges::max(expected.exact[0].data)), 1e-15);
  EXPECT_GT(std::ranges::min(expected.allowed[0].data), 0x1p-26);
  EXPECT_LT(std::ranges::max(expected.allowed[0].data), 0x1p-16);
}

/// The sum that a gradient of softmax subtracts: next to nothing in some rows, whose noise may have
/// cancelled too, while its partial sums are rounded as those of all rows are.
TEST(Compare, RowsWhoseSumsCancelMayKeepWhatOthersMay) {
  constexpr std::int64_t count = 2000, wide = 128;
  const std::string type = fmt::format("tensor<?x{}xf32>", wide);
  const Module module = Module::parse(
      fmt::format("func.func @f(%y: {0}, %g: {0}) -> {0} {{\n"
                  "  %p = arith.mulf %y, %g : {0}\n"
                  "  %s = kiln.reduce sum %p dims [1] : {0} -> tensor<?xf32>\n"
                  "  %sums = kiln.broadcast %s dims [0] like %y : tensor<?xf32>, {0} -> {0}\n"
                  "  %d = arith.subf %g, %sums : {0}\n"
                  "  %x = arith.mulf %y, %d : {0}\n  return %x : {0}\n}}\n",
                  type));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<ir::Tensor64> inputs(2, ir::makeTensor64({count, wide}));
  for (ir::Tensor64& input : inputs)
    std::ranges::generate(input.data, [&] { return normal(random); });
  TensorInfo info;
  info.dtype = DType::f32;
  const program::Expected expected = program::expect(module, "f", inputs, std::span(&info, 1));
  std::vector<double> largest; // of each row
  for (std::int64_t r = 0; r < count; ++r)
    largest.push_back(
        *std::max_element(expected.allowed[0].row(r), expected.allowed[0].row(r + 1)));
  std::vector<double> sorted = largest;
  std::ranges::sort(sorted);
  EXPECT_GT(sorted.front(), sorted[count / 2] / 4);
  EXPECT_LT(sorted.back(), sorted[count / 2] * 10);
}

/// Of ones times a number: `width` terms that are rounded the same way each time.
program::Expected expectSumOfEqual(std::int64_t wide, float value) {
  const std::string type = fmt::format("tensor<?x{}xf32>", wide);
  const Module module =
      Module::parse(fmt::format("func.func @f(%x: {0}) -> tensor<?xf32> {{\n"
                                "  %s = kiln.reduce mean %x dims [1] : {0} -> tensor<?xf32>\n  "
                                "return %s : tensor<?xf32>\n}}\n",
                                type));
  ir::Tensor64 x = ir::makeTensor64({12, wide}, static_cast<double>(value));
  TensorInfo info;
  info.dtype = DType::f32;
  return program::expect(module, "f", {x}, std::span(&info, 1));
}

/// Two lanes add a thousand of them each, whose roundings add up; what one of ten thousand of the
/// sum is off is wrong all the same.
TEST(Compare, EqualTermsAreRoundedTheSameWay) {
  constexpr float value = -0.00623807078F;
  float lane = 0.0F;
  for (int i = 0; i < 1000; ++i)
    lane += value;
  const double result = static_cast<double>((lane + lane) / 2000.0F);
  const program::Expected expected = expectSumOfEqual(2000, value);
  EXPECT_GT(expected.allowed[0].data[0], std::abs(result - static_cast<double>(value)));
  EXPECT_LT(expected.allowed[0].data[0], 1e-4 * std::abs(static_cast<double>(value)));
}

/// A tenth less a tenth is not always nothing, in fp64 either.
TEST(Compare, RowsThatCancelSayNothingAboutOthers) {
  const program::Expected expected = expect(
      "  %tenth = arith.constant dense<0.1> : tensor<3xf64>\n"
      "  %tenths = kiln.broadcast %tenth dims [1] like %x : tensor<3xf64>, tensor<?x3xf32> -> "
      "tensor<?x3xf64>\n"
      "  %ten = arith.constant dense<10.0> : tensor<3xf64>\n"
      "  %tens = kiln.broadcast %ten dims [1] like %x : tensor<3xf64>, tensor<?x3xf32> -> "
      "tensor<?x3xf64>\n"
      "  %wide = arith.extf %x : tensor<?x3xf32> to tensor<?x3xf64>\n"
      "  %a = arith.mulf %wide, %tenths : tensor<?x3xf64>\n"
      "  %b = arith.divf %wide, %tens : tensor<?x3xf64>\n"
      "  %an = arith.truncf %a : tensor<?x3xf64> to tensor<?x3xf32>\n"
      "  %bn = arith.truncf %b : tensor<?x3xf64> to tensor<?x3xf32>\n"
      "  %d = arith.subf %an, %bn : tensor<?x3xf32>\n"
      "  %zero = arith.constant dense<0.0> : tensor<3xf32>\n"
      "  %zeros = kiln.broadcast %zero dims [1] like %x : tensor<3xf32>, tensor<?x3xf32> -> "
      "tensor<?x3xf32>\n"
      "  %p = arith.maximumf %x, %zeros : tensor<?x3xf32>\n"
      "  %y = arith.addf %d, %p : tensor<?x3xf32>\n",
      [](std::int64_t r) { return r % 2 == 0 ? -0.8 : 1.0; });
  EXPECT_NE(expected.exact[0].data[0], 0.0);
  EXPECT_LT(std::abs(expected.exact[0].data[0]), 1e-15);
  EXPECT_GT(expected.exact[0].row(1)[0], 0.9);
  EXPECT_LT(std::ranges::max(expected.allowed[0].data), 1e-4);
}

/// What fp64 says of attention and of its gradients; `cost`: what the reference is said to take.
program::Expected expectAttention(double cost) {
  const std::string rows = "tensor<2x40x8xf32>", row = "tensor<2x40xf32>",
                    bias = "tensor<1x40x40xf32>";
  const Module module = Module::parse(fmt::format(
      "func.func @f(%q: {0}, %do: {0}, %delta: {1}, %b: {2}) -> ({0}, {1}, {0}, {0}, {0}, {2}) {{\n"
      "  %o, %lse = kiln.attention %q, %q, %q bias %b : ({0}, {0}, {0}, {2}) -> ({0}, {1})\n"
      "  %dq, %dk, %dv, %db = kiln.attention_backward %do, %delta, %delta, %q, %q, %q bias %b\n"
      "    : ({0}, {1}, {1}, {0}, {0}, {0}, {2}) -> query {0} key {0} value {0} bias {2}\n"
      "  return %o, %lse, %dq, %dk, %dv, %db : {0}, {1}, {0}, {0}, {0}, {2}\n}}\n",
      rows, row, bias));
  std::vector<ir::Tensor64> inputs;
  for (const auto& shape :
       {std::vector<std::int64_t>{2, 40, 8}, {2, 40, 8}, {2, 40}, {1, 40, 40}}) {
    ir::Tensor64& input = inputs.emplace_back(ir::makeTensor64(shape));
    for (std::size_t i = 0; i < input.data.size(); ++i)
      input.data[i] = std::sin(0.7 * double(i * (inputs.size() + 1)));
  }
  TensorInfo info;
  info.dtype = DType::f32;
  const std::vector<TensorInfo> infos(6, info);
  return program::expect(module, "f", inputs, infos, cost);
}

/// Where fp64 would take hours a row of so many is computed, and is what it is among all; the
/// others may be anything.
TEST(Compare, OfMuchWorkASampleIsComputed) {
  const program::Expected all = expectAttention(0);
  program::Expected some = expectAttention(2e7);
  EXPECT_EQ(all.step, 1);
  ASSERT_EQ(some.step, 3);
  for (std::size_t i = 0; i < all.exact.size(); ++i) {
    std::int64_t known = 0;
    for (std::size_t k = 0; k < all.exact[i].data.size(); ++k)
      if (std::isfinite(some.allowed[i].data[k])) {
        ++known;
        EXPECT_EQ(some.exact[i].data[k], all.exact[i].data[k]) << i << " " << k;
        EXPECT_LT(some.allowed[i].data[k], 100 * all.allowed[i].data[k]) << i << " " << k;
      }
    EXPECT_GT(known, all.exact[i].size() * 3 / 10) << i;
    EXPECT_LT(known, all.exact[i].size() * 4 / 10) << i;
    ir::Tensor64 result = all.exact[i];
    TensorInfo info;
    EXPECT_TRUE(program::compare(info, result, some, i).passed);
    for (double& value : result.data)
      value += 0.1;
    EXPECT_FALSE(program::compare(info, result, some, i).passed);
  }
}

/// Where results cancel, where probabilities are below fp16's normal numbers, and where a sum of
/// exponentials is near 1, what is right is small beside its roundings.
TEST(Compare, RightAttentionsAreNotCalledWrong) {
  const Workload workload = parseWorkload(
      "attention 1x4x33x1 f16 0.2 forward,backward keys=31 window_left=0 window_right=3 softcap=3 "
      "scale=1e-3\n"
      "attention 2x4x65x1 bf16 0.2 forward,backward keys=2 window_left=64 window_right=0 softcap=3 "
      "key_heads=2\n"
      "attention 1x2x17x192 f16 0.2 backward keys=70 scale=-0.5 mask=keys key_heads=1\n"
      "attention 2x4x65x24 bf16 0.2 forward keys=64 window_left=0 window_right=64 scale=1e-3 "
      "mask=own bias=shared\n"
      "attention 1x1x64x192 bf16 0.2 forward window_left=64 window_right=0 value_width=1\n");
  ASSERT_TRUE(workload.errors.empty()) << workload.errors.front();
  ASSERT_EQ(workload.entries.size(), 7U);
  for (const WorkloadEntry& entry : workload.entries) {
    CompileOptions options = entry.options({});
    options.until = Stage::cuda;
    const Program program = Program::compile(Module::fromOp(entry.op()), options);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      RunOptions run;
      run.seed = seed;
      const Verification verification = verify(program, run);
      EXPECT_TRUE(verification.passed)
          << entry.shape.back() << " " << entry.backward << " " << seed;
    }
  }
}

/// Also of an op that draws what it rounds itself, and has no input that is moved.
TEST(Compare, EachDrawIsAnother) {
  const Module module = Module::parse(
      "func.func @f(%q: tensor<1x16x8xbf16>) -> tensor<1x16x8xbf16> {\n"
      "  %o, %lse = kiln.attention %q, %q, %q {scale = 0.35 : f32} : (tensor<1x16x8xbf16>, "
      "tensor<1x16x8xbf16>, tensor<1x16x8xbf16>) -> (tensor<1x16x8xbf16>, tensor<1x16xf32>)\n"
      "  return %o : tensor<1x16x8xbf16>\n}\n");
  ir::Tensor64 q = ir::makeTensor64({1, 16, 8});
  std::mt19937 random(5);
  std::ranges::generate(q.data, [&] { return double(random() % 64) / 32 - 1; });
  TensorInfo info;
  info.dtype = DType::bf16;
  program::Expected expected = program::expect(module, "f", {q}, std::span(&info, 1));
  const auto before = expected.allowed[0].data;
  ASSERT_TRUE(expected.drawAgain());
  double largest = 0.0; // change; of equal draws only the mean is rounded differently
  for (auto [was, is] : llvm::zip(before, expected.allowed[0].data))
    largest = std::max(largest, std::abs(is / was - 1.0));
  EXPECT_GT(largest, 0.01);
}

/// An element that one draw of noise moved by nothing is right once more have moved it, and wrong
/// if none of eight moves it as far.
TEST(Compare, WhatSeemsWrongByOneDrawIsDrawnAgain) {
  program::Expected expected =
      expect("  %one = arith.constant dense<1.0> : tensor<3xf32>\n"
             "  %ones = kiln.broadcast %one dims [1] like %x : tensor<3xf32>, tensor<?x3xf32> -> "
             "tensor<?x3xf32>\n"
             "  %a = arith.addf %x, %ones : tensor<?x3xf32>\n"
             "  %y = arith.subf %a, %ones : tensor<?x3xf32>\n",
             [](std::int64_t r) { return 0.001 * double(r + 1) / 3; });
  TensorInfo info;
  info.dtype = DType::f32;
  ir::Tensor64 result = expected.exact[0];
  for (double& value : result.data)
    value = double(float(value) + 1.0F) - 1.0;
  EXPECT_NE(result.data, expected.exact[0].data);
  std::ranges::fill(expected.allowed[0].data, 0.0); // as by a draw that moved nothing
  EXPECT_TRUE(program::compare(info, result, expected, 0).passed);
  EXPECT_TRUE(expected.drawAgain()) << "two draws were enough";
  result.row(17)[1] += 1e-5;
  const OutputCheck wrong = program::compare(info, result, expected, 0);
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.worst, (std::vector<std::int64_t>{17, 1}));
  EXPECT_FALSE(expected.drawAgain());
}

/// A bias of each row sums over all columns: no sample of these is any good.
TEST(Compare, WhatNoSampleTellsIsRefused) {
  const Module module = Module::parse(
      "func.func @f(%q: tensor<1x4x8xf32>, %n: tensor<1x4xf32>, %b: tensor<1x4x1xf32>) -> "
      "(tensor<1x4x1xf32> {kiln.name = \"db\"}) {\n"
      "  %db = kiln.attention_backward %q, %n, %n, %q, %q, %q bias %b : (tensor<1x4x8xf32>, "
      "tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, "
      "tensor<1x4x1xf32>) -> bias tensor<1x4x1xf32>\n  return %db : tensor<1x4x1xf32>\n}\n");
  const std::vector<ir::Tensor64> inputs = {ir::makeTensor64({1, 4, 8}), ir::makeTensor64({1, 4}),
                                            ir::makeTensor64({1, 4, 1})};
  TensorInfo info;
  info.name = "db";
  info.dtype = DType::f32;
  try {
    program::expect(module, "f", inputs, std::span(&info, 1), 1e9);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("'db' cannot be compared with fp64 at these sizes"),
              0U);
  }
}

} // namespace
} // namespace kiln::test
