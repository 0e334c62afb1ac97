// What rounding may change, where numbers cancel: as much as it does, in every row, and no more
// anywhere else.
#include "codegen/program/Compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

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
  return program::expect(module, "f", std::span(&x, 1), std::span(&info, 1));
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

} // namespace
} // namespace kiln::test
