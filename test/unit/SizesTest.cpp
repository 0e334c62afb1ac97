// Run-time sizes of a function: how many there are, and which must agree.
#include "kiln/plan.h"
#include "kiln/verify.h"
#include "test/backend/Helpers.h"
#include "test/unit/Options.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

TEST(Sizes, AreAsManyAsThereAre) {
  const Program open =
      Program::compile(Module::fromOp({"softmax", {-1, -1, 64}, DType::f32}), untilCuda());
  const Program fixed =
      Program::compile(Module::fromOp({"softmax", {4, 64}, DType::f32}), untilCuda());
  const auto verifyAt = [](const Program& program, const std::vector<std::int64_t>& sizes) {
    RunOptions options;
    options.sizes = sizes;
    return verify(program, options).passed;
  };
  EXPECT_TRUE(verifyAt(open, {3, 5}));
  EXPECT_TRUE(verifyAt(open, {3}));
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { verifyAt(open, {3, 5, 7}); }),
             "3 values are given for run-time sizes (3x5x7), 'softmax' has 2: dimension 0 of 'x', "
             "dimension 1 of 'x'");
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { verifyAt(fixed, {4}); }), "has none");
  const Module module = Module::fromOp({"softmax", {-1, 64}, DType::f32});
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { plan(module, {}, {.sizes = {3, 5}}); }),
             "'softmax' has 1");
}

/// Of a tensor that is never read a broadcast takes the sizes, which those of others must equal.
TEST(Sizes, OfWhatABroadcastIsLikeAreThoseOfItsUsers) {
  const Program program = Program::compile(
      Module::parse("func.func @scaled(%shape: tensor<?x?x64xbf16>, %scale: tensor<?x64xbf16>, "
                    "%x: tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16> {\n"
                    "  %s = kiln.broadcast %scale dims [0, 2] like %shape : tensor<?x64xbf16>, "
                    "tensor<?x?x64xbf16> -> tensor<?x?x64xbf16>\n"
                    "  %y = arith.mulf %x, %s : tensor<?x?x64xbf16>\n"
                    "  return %y : tensor<?x?x64xbf16>\n}\n"),
      untilCuda());
  const std::vector<TensorInfo>& inputs = program.inputs();
  ASSERT_EQ(inputs.size(), 3u);
  for (int d : {0, 1})
    EXPECT_EQ(inputs[0].shape[d].symbol, inputs[2].shape[d].symbol);
  EXPECT_EQ(inputs[1].shape[0].symbol, inputs[2].shape[0].symbol);
  RunOptions options;
  options.sizes = {3, 5};
  EXPECT_TRUE(verify(program, options).passed);
}

} // namespace
