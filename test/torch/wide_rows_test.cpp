// Rows as wide as kernels reduce, such as the 128,256 classes of a language model: on the host
// target beside fp64, a few rows; and every routed function of them compiled for a GPU, as far as
// that can be without one: a schedule that fits, and nothing spilled.
#include "kiln/derivative.h"
#include "test/torch/Helpers.h"

#include <torch/csrc/autograd/autograd.h>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

constexpr std::int64_t widths[] = {65537, 128256, maxRowWidth};

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The result and the gradients of all operands, of a cotangent that differs along the rows.
std::vector<Tensor> withGradients(const Function& function, const std::vector<Tensor>& values) {
  std::vector<Tensor> leaves;
  for (const Tensor& value : values)
    leaves.push_back(value.detach().requires_grad_());
  const Tensor y = function(leaves);
  const Tensor cotangent =
      y.dim() == 0 ? at::ones_like(y)
                   : at::linspace(-1, 1, y.size(-1), y.options()).expand(y.sizes()).contiguous();
  std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {cotangent});
  all.insert(all.begin(), y.detach());
  return all;
}

/// In strict mode, so that Kiln's kernels run; each tensor within roundings of its own largest.
void expectNearFp64(const Function& function, const std::vector<Tensor>& values,
                    const std::string& what) {
  disable();
  std::vector<Tensor> wide;
  for (const Tensor& value : values)
    wide.push_back(value.to(at::kDouble));
  const auto exact = withGradients(function, wide);
  enable(strictOnCpu());
  const auto ours = withGradients(function, values);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double allowed = toleranceOf(ours[i].scalar_type()) * exact[i].abs().max().item<double>();
    EXPECT_LE((ours[i].to(at::kDouble) - exact[i]).abs().max().item<double>(), allowed)
        << what << ", tensor " << i;
  }
  disable();
}

Tensor normal(std::int64_t width, at::ScalarType dtype = at::kFloat) {
  return at::randn({2, width}).to(dtype);
}

TEST(TorchWideRows, LossesAndTheirGradientsAreRight) {
  at::manual_seed(1);
  for (const std::int64_t width : widths) {
    const Tensor classes = at::tensor({width - 1, std::int64_t(7)});
    const Function loss = [&](const auto& in) { return at::cross_entropy_loss(in[0], classes); };
    const auto before = callsByKiln("cross_entropy_loss");
    expectNearFp64(loss, {normal(width)}, fmt::format("a loss over {}", width));
    EXPECT_EQ(callsByKiln("cross_entropy_loss"), before + 1) << report();
  }
}

TEST(TorchWideRows, SoftmaxesAndNormsAreRight) {
  at::manual_seed(1);
  const std::int64_t width = 128256;
  expectNearFp64([](const auto& in) { return at::softmax(in[0], 1); }, {normal(width)}, "softmax");
  expectNearFp64([](const auto& in) { return at::log_softmax(in[0], 1); },
                 {normal(width, at::kBFloat16)}, "log_softmax");
  const Tensor weight = at::randn({width}), bias = at::randn({width});
  expectNearFp64([&](const auto& in) { return at::layer_norm(in[0], {width}, in[1], in[2]); },
                 {normal(width), weight, bias}, "layer_norm");
  const Function rmsNorm = [&](const auto& in) {
    return in[0].scalar_type() == at::kDouble // whose ATen kernel other tests replace
               ? in[0] * at::rsqrt(in[0].square().mean(1, true) + 1e-5) * in[1]
               : at::rms_norm(in[0], {width}, in[1], 1e-5);
  };
  expectNearFp64(rmsNorm, {normal(width), weight}, "rms_norm");
}

/// Elements have no rows: those of long odd tensors are taken as short ones.
TEST(TorchWideRows, ElementsAreTakenInWhateverNumber) {
  at::manual_seed(1);
  for (const std::int64_t elements : {maxRowWidth + 1, maxRowWidth + 32, std::int64_t(300'001)}) {
    const Tensor x = at::randn({elements});
    const auto what = std::to_string(elements);
    expectNearFp64([](const auto& in) { return at::gelu(in[0]); }, {x}, "gelu of " + what);
    expectNearFp64([](const auto& in) { return at::silu(in[0]); }, {x}, "silu of " + what);
    enable(strictOnCpu());
    const auto [y, kept] = at::native_dropout(x, 0.25, true);
    EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.75, 0.01);
    EXPECT_TRUE(at::allclose(y, at::where(kept, x / 0.75, 0.0)));
    disable();
  }
  EXPECT_TRUE(reports("262145x1 f32")) << report();
}

/// The mask is the same before there is a kernel and by it.
TEST(TorchWideRows, MasksOfLongOddTensorsDoNotDependOnTheKernel) {
  const Tensor x = at::ones({2 * maxRowWidth + 3});
  const auto draw = [&](const Options& options) {
    enable(options);
    at::manual_seed(7);
    const Tensor kept = std::get<1>(at::native_dropout(x, 0.5, true));
    disable();
    return kept;
  };
  const auto before = callsByKiln("native_dropout");
  const Tensor first = draw(onCpu());
  EXPECT_EQ(callsByKiln("native_dropout"), before) << "it was compiled before it was asked for";
  EXPECT_TRUE(at::equal(draw(strictOnCpu()), first));
  EXPECT_EQ(callsByKiln("native_dropout"), before + 1);
}

TEST(TorchWideRows, WhatIsWiderRunsOnATen) {
  enable(onCpu());
  const Tensor x = at::randn({1, maxRowWidth + 1});
  const Tensor y = at::log_softmax(x, 1);
  EXPECT_TRUE(reports(fmt::format("not taken: rows wider than {}", maxRowWidth))) << report();
  disable();
  EXPECT_TRUE(at::equal(y, at::log_softmax(x, 1)));
}

/// As it is routed: the loss of all rows, with the gradient of the logits.
Module lossOf(std::int64_t width, DType dtype) {
  const std::string rows = fmt::format("tensor<?x{}x{}>", width, name(dtype));
  return withGradient(Module::parse(
      fmt::format("func.func @cross_entropy(%x: {0}, %target: tensor<?xi64>) -> tensor<f32> {{\n"
                  "  %each, %lse = kiln.cross_entropy %x, %target {{ignore_index = -100 : i64}}\n"
                  "      : ({0}, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)\n"
                  "  %loss = kiln.reduce sum %each dims [0] : tensor<?xf32> -> tensor<f32>\n"
                  "  return %loss : tensor<f32>\n}}\n",
                  rows)));
}

void expectCompiles(const Module& module, bool backward, const std::string& what) {
  CompileOptions options;
  options.backward = backward;
  options.readAhead = false;
  options.until = Stage::cubin;
  try {
    for (const KernelInfo& kernel : Program::compile(module, options).kernels())
      EXPECT_EQ(kernel.usage.spillStoreBytes, 0) << what << ": " << kernel.schedule;
  } catch (const Error& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
}

TEST(TorchWideRows, EveryFunctionOfThemCompilesForAGpu) {
  if (!hasCompiler())
    GTEST_SKIP() << "no NVRTC, so that nothing can be compiled for a GPU";
  for (const std::int64_t width : widths)
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const auto what = [&](const char* op, bool backward) {
        return fmt::format("{} of {} {}{}", op, width, name(dtype), backward ? ", backward" : "");
      };
      for (const char* op : {"softmax", "log_softmax", "layer_norm", "rms_norm"})
        for (const bool backward : {false, true})
          expectCompiles(Module::fromOp({op, {-1, width}, dtype}), backward, what(op, backward));
      expectCompiles(lossOf(width, dtype), false, what("cross_entropy with its gradient", false));
    }
  for (const std::int64_t width : {1, 32}) // what elements of long odd tensors are rows of
    for (const char* op : {"gelu", "silu"})
      for (const bool backward : {false, true})
        expectCompiles(Module::fromOp({op, {-1, width}, DType::bf16}), backward,
                       fmt::format("{} of {}", op, width));
}

} // namespace
