// What kiln::fuse refuses, and what a backward refuses whose operands were overwritten or freed.
#include "test/torch/FuseHelpers.h"

namespace kiln::test::fused {

namespace {

TEST(Fuse, GradientsOfGradientsAreRefused) {
  const auto f = fuse([](Expr x) { return x * x; }, onHost("twice"));
  const Tensor x = at::randn({3, 8}).requires_grad_();
  const Tensor dx = torch::autograd::grad({f(x).sum()}, {x}, {}, true, true)[0];
  EXPECT_TRUE(at::allclose(dx, 2 * x)); // nobody has asked for its gradient yet
  EXPECT_THROW(torch::autograd::grad({dx.sum()}, {x}), c10::Error);
}

TEST(Fuse, WhatIsSavedIsChecked) {
  const auto f = fuse([](Expr x) { return x * x; }, onHost("saved"));
  const Tensor x = at::randn({3, 8}).requires_grad_(), h = x * 1, y = f(h);
  h.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error); // modified in place
  const Tensor z = f(x);
  z.sum().backward();
  EXPECT_THROW(z.sum().backward(), c10::Error); // a second time
}

TEST(Fuse, ErrorsSayWhatIsWrong) {
  const auto add = fuse([](Expr x, Expr y) { return x + y; }, onHost("add"));
  const Tensor x = at::randn({4, 8});
  EXPECT_EQ(errorOf([&] { add(x, at::randn({4, 7})); }),
            "add: operands of shapes [4, 8], [4, 7] do not fit each other: sizes 8 and 7 in "
            "dimension 1 of 2; they must agree, or one be 1");
  EXPECT_EQ(errorOf([&] { add(at::randn({4, 1}), at::randn({8})); }),
            "add: operands are broadcast to a shape that none of them has; expand one of them to "
            "it");
  EXPECT_EQ(errorOf([&] { add(x, x.to(at::kByte)); }),
            "add: operand 1 has dtype Byte; Float, BFloat16, Half, Double, and for masks and "
            "indices Bool, Long and Int are allowed");
  EXPECT_EQ(errorOf([&] { add(x, Tensor()); }), "add: operand 1 is undefined");
  EXPECT_EQ(errorOf([&] { add(x, at::empty({4, 8}, at::TensorOptions(at::kMeta))); }),
            "add: operand 1 is on meta, operand 0 on cpu; move one of them");
  EXPECT_EQ(errorOf([] { fuse([](Expr x) { return x; }, {.name = "a b"}); }),
            "fuse: the name 'a b' is not of letters, digits and '_', beginning with a letter or "
            "'_'");
  EXPECT_EQ(errorOf([] { fuse([](Expr x) { return dropout(x, 1.5); }); }),
            "dropout: p = 1.5 is no probability; give a number from 0 to 1");
  const auto outside = fuse([](Expr x, Expr c) { return where(c, x, 0); }, onHost("condition"));
  EXPECT_EQ(errorOf([&] { outside(x, x); }),
            "condition: where() takes a comparison or an operand of dtype Bool as its condition; "
            "it is given f32");
}

TEST(Fuse, AnOperandThatIsOverwrittenIsAnErrorThatNamesTheFunction) {
  const auto square = fuse([](Expr x) { return x * x; }, onHost("overwritten"));
  const Tensor x = at::ones({40, 104}).requires_grad_(), h = x * 1;
  const Tensor y = square(h);
  h.add_(1);
  try {
    y.sum().backward();
    ADD_FAILURE();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("modified by an inplace operation"), std::string::npos) << text;
    EXPECT_NE(text.find("overwritten 40x104 f32 keeps its operands"), std::string::npos) << text;
  }
}

} // namespace

} // namespace kiln::test::fused
