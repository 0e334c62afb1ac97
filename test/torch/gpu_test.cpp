// Routed ops on a GPU: forward and backward beside fp64 and no worse than ATen, at the shapes of
// language models and of AlphaFold; inside a CUDA graph; from several threads. Skips without a GPU.
#include "test/torch/Helpers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <kiln/baseline.h>
#include <kiln/compile.h>
#include <kiln/nn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class TorchGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA())
      GTEST_SKIP() << "this LibTorch sees no GPU";
    enable(strict());
  }
  void TearDown() override { disable(); }

  static Options strict() {
    Options options;
    options.strict = true;
    return options;
  }
};

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Op {
  const char* name;
  Function function;
  int parameters; // of the width of a row, behind x
};
const Op ops[] = {
    {"layer_norm",
     [](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], 1e-5); }, 2},
    {"rms_norm", [](const auto& in) { return at::rms_norm(in[0], {in[0].size(-1)}, in[1], 1e-6); },
     1},
    {"softmax", [](const auto& in) { return at::softmax(in[0], -1); }, 0},
    {"log_softmax", [](const auto& in) { return at::log_softmax(in[0], -1); }, 0},
    {"gelu", [](const auto& in) { return at::gelu(in[0]); }, 0},
    {"gelu_tanh", [](const auto& in) { return at::gelu(in[0], "tanh"); }, 0},
    {"silu", [](const auto& in) { return at::silu(in[0]); }, 0},
};

std::vector<Tensor> run(const Function& function, const std::vector<Tensor>& values,
                        const Tensor& cotangent, at::ScalarType dtype) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values)
    inputs.push_back(value.detach().to(dtype).requires_grad_());
  Tensor y = function(inputs);
  auto all = torch::autograd::grad({y}, inputs, {cotangent.to(dtype)});
  all.insert(all.begin(), y.detach());
  return all;
}

double errorOf(const Tensor& result, const Tensor& reference) {
  return (result.to(at::kDouble) - reference).abs().max().item<double>();
}

/// One rounding of the dtype at the tensor's largest element: what an error may be anyhow.
double roundingOf(const Tensor& reference, at::ScalarType dtype) {
  const double unit = dtype == at::kFloat ? 0x1p-22 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  return unit * reference.abs().max().item<double>();
}

TEST_F(TorchGpu, BaselinesAreSteadyTimesOfATen) {
  for (const bool backward : {false, true}) {
    TuningTask task{Module::fromOp({"softmax", {-1, 1024}, DType::bf16}), {}, {8192}, "softmax"};
    task.options.backward = backward;
    const auto baseline = timeATen(task);
    ASSERT_TRUE(baseline);
    EXPECT_NE(baseline->provider.find(backward ? "_softmax_backward_data" : "_softmax"),
              std::string::npos);
    std::vector<double> times = baseline->microseconds;
    ASSERT_EQ(times.size(), 64u);
    std::ranges::sort(times);
    EXPECT_GT(times[32], 3) << "more bytes a second than the memory moves";
    EXPECT_LT(times[56], 1.2 * times[8]);
  }
  // Statistics and weights of another type than ATen has them in: nothing of ATen's to compare
  // with.
  EXPECT_FALSE(
      timeATen({Module::fromOp({"layer_norm", {-1, 128}, DType::bf16}), {}, {64}, "bf16"}));
}

TEST_F(TorchGpu, OpsAreAsCloseToFp64AsATens) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {65536, 128},    {17424, 64},  {132, 256}, {8192, 1280},
      {8, 1024, 2560}, {512, 50304}, {37, 101}};
  for (const Op& op : ops)
    for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const auto& shape : shapes) {
        at::manual_seed(1);
        std::vector<Tensor> values = {at::randn(shape, onGpu()).to(dtype)};
        for (int i = 0; i < op.parameters; ++i)
          values.push_back(at::randn({shape.back()}, onGpu()).to(dtype));
        const Tensor cotangent = at::randn(shape, onGpu()).to(dtype);
        enable(strict());
        const auto ours = run(op.function, values, cotangent, dtype);
        disable();
        const auto theirs = run(op.function, values, cotangent, dtype);
        const auto exact = run(op.function, values, cotangent, at::kDouble);
        for (std::size_t i = 0; i < ours.size(); ++i) {
          EXPECT_EQ(ours[i].scalar_type(), theirs[i].scalar_type());
          EXPECT_EQ(ours[i].strides(), theirs[i].strides());
          EXPECT_LE(errorOf(ours[i], exact[i]),
                    1.5 * errorOf(theirs[i], exact[i]) + roundingOf(exact[i], dtype))
              << op.name << " " << shape[0] << "x" << shape.back() << " " << dtype << " tensor "
              << i;
        }
      }
  enable(strict());
}

TEST_F(TorchGpu, CrossEntropyIsAsCloseToFp64AsATens) {
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& shape : {std::vector<std::int64_t>{8192, 50304}, {1000, 50257}, {4096, 101}})
      for (auto reduction : {at::Reduction::Mean, at::Reduction::Sum, at::Reduction::None}) {
        at::manual_seed(1);
        if (dtype == at::kFloat && shape[0] == 8192)
          continue; // fp64 of it takes much memory
        const Tensor x = at::randn(shape, onGpu()).to(dtype),
                     t = at::randint(shape[1], {shape[0]}, onGpu(at::kLong));
        t.slice(0, 7, 11).fill_(-100);
        const Tensor cotangent =
            at::full(reduction == at::Reduction::None ? at::IntArrayRef(shape).slice(0, 1)
                                                      : at::IntArrayRef(),
                     3.5, onGpu());
        const Function loss = [&](const auto& in) {
          return at::cross_entropy_loss(in[0], t, {}, reduction, -100, 0.1);
        };
        enable(strict());
        const auto before = callsByKiln("cross_entropy_loss_backward");
        const auto ours = run(loss, {x}, cotangent, dtype);
        EXPECT_EQ(callsByKiln("cross_entropy_loss_backward"), before + 1) << report();
        disable();
        const auto theirs = run(loss, {x}, cotangent, dtype);
        const auto exact = run(loss, {x}, cotangent, at::kDouble);
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_LE(errorOf(ours[i], exact[i]),
                    1.5 * errorOf(theirs[i], exact[i]) + roundingOf(exact[i], dtype))
              << shape[0] << "x" << shape[1] << " " << dtype << " tensor " << i;
      }
}

/// Beside ATen under autocast, by types and values; without a copy of the input in fp32.
TEST_F(TorchGpu, AutocastReadsHalfPrecisionAndWritesFp32) {
  const Tensor w = at::randn({1000}, onGpu()), t = at::arange(4096, onGpu(at::kLong)) % 1000;
  const std::pair<const char*, Function> all[] = {
      {"layer_norm", [](const auto& in) { return at::layer_norm(in[0], {1000}, in[1], in[1]); }},
      {"softmax.int", [](const auto& in) { return at::softmax(in[0], -1) * in[1]; }},
      {"log_softmax.int", [](const auto& in) { return at::log_softmax(in[0], -1) * in[1]; }},
      {"cross_entropy_loss",
       [&](const auto& in) { return at::cross_entropy_loss(in[0], t) * in[1]; }}};
  for (auto dtype : {at::kBFloat16, at::kHalf}) {
    const Tensor x = at::randn({4096, 1000}, onGpu()).to(dtype);
    for (const auto& [name, function] : all) {
      const auto under = [&, &function = function] {
        const std::vector<Tensor> in = {x.detach().requires_grad_(), w.detach().requires_grad_()};
        at::autocast::set_autocast_enabled(at::kCUDA, true);
        const Tensor y = function(in);
        at::autocast::set_autocast_enabled(at::kCUDA, false);
        const Tensor dy = at::linspace(-1, 1.5, y.numel(), onGpu()).view_as(y) * 100;
        auto results = torch::autograd::grad({y}, in, {dy});
        results.push_back(y.detach());
        return results;
      };
      enable(strict());
      const auto before = callsByKiln(name);
      const auto ours = under();
      EXPECT_EQ(callsByKiln(name), before + 1) << name << "\n" << report();
      disable();
      const auto theirs = under();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].scalar_type(), theirs[i].scalar_type()) << name;
        EXPECT_LT((ours[i] - theirs[i]).norm().item<double>(),
                  (theirs[i].scalar_type() == at::kFloat ? 1e-5 : 4e-3) *
                      theirs[i].norm().item<double>())
            << name << " " << c10::toString(dtype) << " tensor " << i;
      }
    }
  }
}

/// Under a cap on the memory of this process: an exception of Torch's, and the next step is right.
TEST_F(TorchGpu, MemoryThatRunsOutInTheMiddleOfAStepLeavesTheNextOneRight) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const Tensor w = at::randn({4096}, onGpu()).requires_grad_();
  const auto step = [&](std::int64_t rows) {
    w.mutable_grad() = Tensor();
    at::manual_seed(1);
    const Tensor x = at::randn({rows, 4096}, onGpu());
    const Tensor y = at::silu(at::layer_norm(at::gelu(x), {4096}, w, w));
    at::cross_entropy_loss(y, at::zeros({rows}, onGpu(at::kLong))).backward();
    return w.grad();
  };
  const Tensor before = step(256);
  const double total = static_cast<double>(at::cuda::getCurrentDeviceProperties()->totalGlobalMem);
  allocator::emptyCache();
  allocator::setMemoryFraction(1.5e9 / total, 0);
  int failures = 0;
  for (std::int64_t rows = 8192; rows <= 65536; rows += 4096) { // 128 MB a tensor and more
    try {
      step(rows);
    } catch (const c10::OutOfMemoryError&) {
      ++failures;
    }
    EXPECT_TRUE(at::equal(step(256), before)) << rows;
  }
  allocator::setMemoryFraction(1.0, 0);
  EXPECT_GT(failures, 2);
  EXPECT_TRUE(at::equal(step(256), before));
}

TEST_F(TorchGpu, AGraphReplaysWhatWasCaptured) {
  const Tensor x = at::randn({4096, 640}, onGpu()), w = at::randn({640}, onGpu()),
               dy = at::randn({4096, 640}, onGpu());
  const auto step = [&] {
    auto [y, mean, rstd] = at::native_layer_norm(x, {640}, w, w, 1e-5);
    auto [dx, dw, db] =
        at::native_layer_norm_backward(dy, x, {640}, mean, rstd, w, w, {true, true, true});
    return std::vector<Tensor>{at::softmax(at::gelu(y), -1), dx, dw, db};
  };
  step();
  const auto before = callsByKiln("native_layer_norm");
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto captured = step();
  graph.capture_end();
  EXPECT_EQ(callsByKiln("native_layer_norm"), before + 1);
  for (int round = 0; round < 3; ++round) {
    x.normal_();
    dy.normal_();
    graph.replay();
    const auto eager = step();
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(at::equal(captured[i], eager[i])) << "round " << round << ", tensor " << i;
  }
}

/// What is not compiled yet must not break a capture: ATen is captured, and the report says so.
TEST_F(TorchGpu, ACaptureDoesNotWaitForACompiler) {
  enable({});
  const Tensor x = at::randn({300, 1111}, onGpu());
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const Tensor y = at::log_softmax(x, 1);
  wait(); // compiling and loading beside a capture
  graph.capture_end();
  graph.replay();
  EXPECT_TRUE(at::allclose(y, at::log_softmax(x, 1), 1e-5, 1e-5));
  EXPECT_TRUE(reports("1 captured into a graph before it was there")) << report();
  EXPECT_GE(callsByKiln("_log_softmax"), 1U);
}

TEST_F(TorchGpu, ThreadsOnStreamsOfTheirOwn) {
  enable({});
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const c10::cuda::CUDAStreamGuard own(c10::cuda::getStreamFromPool());
      for (int i = 0; i < 200; ++i) {
        const Tensor x = at::randn({64 + i, 128 * (1 + (t + i) % 4)}, onGpu());
        const Tensor y = at::layer_norm(x, {x.size(1)});
        const Tensor centred = x - x.mean(1, true);
        wrong +=
            !at::allclose(y, centred * (centred.square().mean(1, true) + 1e-5).rsqrt(), 1e-3, 1e-4);
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(callsByKiln("native_layer_norm"), 0U) << report();
}

TEST_F(TorchGpu, TwoGpus) {
  if (c10::cuda::device_count() < 2)
    GTEST_SKIP() << "one GPU";
  for (int device : {1, 0, 1}) { // the current device stays 0
    const Tensor x = at::randn({100, 384}, onGpu().device(at::Device(at::kCUDA, device)));
    const Tensor y = at::softmax(x, 1);
    EXPECT_EQ(y.device().index(), device);
    EXPECT_TRUE(at::allclose(y.sum(1), at::ones_like(y.select(1, 0)), 1e-4, 1e-4));
  }
}

/// Residual, bias, dropout and norm as one kernel each way.
auto makeBlock(double p) {
  return fuse(
      [p](Expr x, Expr r, Expr b, Expr g) {
        const Expr sum = (r + (p > 0 ? dropout(x + b, p) : x + b)).rounded();
        return std::array{rmsNorm(sum, g), sum};
      },
      {.name = "block"});
}

TEST_F(TorchGpu, FusedFunctionsAreAsCloseToFp64AsATens) {
  const auto block = makeBlock(0);
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& shape : {std::vector<std::int64_t>{4096, 640}, {8, 300, 1280}, {33, 101}}) {
      at::manual_seed(2);
      std::vector<Tensor> values = {at::randn(shape, onGpu()).to(dtype),
                                    at::randn(shape, onGpu()).to(dtype),
                                    at::randn({shape.back()}, onGpu()).to(dtype),
                                    at::randn({shape.back()}, onGpu()).to(dtype)};
      const Tensor cotangent = at::randn(shape, onGpu()).to(dtype);
      const auto fused = [&](const std::vector<Tensor>& in) {
        const auto [y, sum] = block(in[0], in[1], in[2], in[3]);
        return y + sum;
      };
      const auto formula = [](const std::vector<Tensor>& in) {
        const Tensor sum = in[1] + (in[0] + in[2]);
        return at::rms_norm(sum, {sum.size(-1)}, in[3], 1e-6) + sum;
      };
      disable(); // fused functions do not depend on it; the formula is ATen's
      const auto ours = run(fused, values, cotangent, dtype);
      const auto theirs = run(formula, values, cotangent, dtype);
      const auto exact = run(formula, values, cotangent, at::kDouble);
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_LE(errorOf(ours[i], exact[i]),
                  1.5 * errorOf(theirs[i], exact[i]) + 2 * roundingOf(exact[i], dtype))
            << shape[0] << "x" << shape.back() << " " << dtype << " tensor " << i;
    }
  EXPECT_GE(callsByKiln("block"), 9U) << report();
}

/// Replays draw other numbers, the same forward and backward.
TEST_F(TorchGpu, AGraphReplaysFusedDropout) {
  const auto drop = fuse([](Expr x) { return dropout(x, 0.5); }, {.name = "drop"});
  const Tensor x = at::ones({1000, 512}, onGpu()).requires_grad_();
  const auto step = [&] {
    const Tensor y = drop(x);
    return std::pair(y, torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0]);
  };
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  step();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto [y, dx] = step();
  graph.capture_end();
  Tensor before;
  for (int round = 0; round < 3; ++round) {
    graph.replay();
    EXPECT_TRUE(at::equal(y, dx)) << "round " << round;
    EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.01);
    EXPECT_FALSE(before.defined() && at::equal(y, before)) << "round " << round;
    before = y.clone();
  }
}

/// y and gradients of x and of the parameters, by kiln::nn::LSTM or by ATen's.
std::vector<Tensor> runLstm(nn::LSTM& lstm, const Tensor& values, bool byKiln) {
  const Tensor x = values.detach().requires_grad_();
  std::vector<Tensor> leaves = {x};
  for (const Tensor& parameter : lstm->parameters())
    leaves.push_back(parameter.detach().to(x.scalar_type()).requires_grad_());
  Tensor y;
  if (byKiln) {
    const std::vector<Tensor> own = lstm->parameters();
    std::copy(own.begin(), own.end(), leaves.begin() + 1);
    y = std::get<0>(lstm(x));
  } else {
    const Tensor zero = at::zeros({2, x.size(1), lstm->hiddenSize}, x.options());
    y = std::get<0>(at::lstm(x, {zero, zero}, std::vector(leaves.begin() + 1, leaves.end()), true,
                             2, 0.0, true, false, false));
  }
  const Tensor cotangent = at::linspace(-1, 1.5, y.numel(), y.options()).view(y.sizes());
  std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {cotangent});
  all.push_back(y.detach());
  return all;
}

TEST_F(TorchGpu, LSTMIsAsCloseToFp64AsATens) {
  at::manual_seed(1);
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (std::int64_t width : {64, 51}) {
      nn::LSTM lstm(40, width, nn::LSTMOptions{.layers = 2});
      lstm->to(at::Device(at::kCUDA, 0), type);
      const Tensor x = at::randn({12, 9, 40}, onGpu()).to(type);
      const auto ours = runLstm(lstm, x, true), theirs = runLstm(lstm, x, false),
                 exact = runLstm(lstm, x.to(at::kDouble), false);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const auto error = [&](const Tensor& of) {
          return (of.to(at::kDouble) - exact[i]).abs().max().item<double>();
        };
        const double scale = exact[i].abs().max().item<double>();
        EXPECT_LE(error(ours[i]), 2 * error(theirs[i]) + toleranceOf(type) * scale)
            << c10::toString(type) << " " << width << " tensor " << i;
      }
    }
  EXPECT_GE(callsByKiln("lstm_cell_backward"), 100U) << report();
}

TEST_F(TorchGpu, AGraphReplaysAnLSTM) {
  nn::LSTM lstm(16, 32);
  lstm->to(at::Device(at::kCUDA, 0));
  const Tensor x = at::randn({8, 4, 16}, onGpu());
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  const auto step = [&] {
    const Tensor y = std::get<0>(lstm(x));
    return std::pair(y, torch::autograd::grad({y.sum()}, {lstm->parameters()[1]})[0]);
  };
  step();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto [y, dweight] = step();
  graph.capture_end();
  x.copy_(at::randn({8, 4, 16}, onGpu()));
  graph.replay();
  const auto [expected, gradient] = step();
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(dweight, gradient));
}

TEST_F(TorchGpu, ACaptureOfAFusedFunctionThatIsNotCompiledIsRefused) {
  const auto f = fuse([](Expr x) { return exp(x) * 3; }, {.name = "late"});
  const Tensor x = at::randn({7, 1031}, onGpu());
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  EXPECT_THROW(f(x), Error);
  const Tensor y = x * 2; // the capture goes on
  wait();
  graph.capture_end();
  graph.replay();
  EXPECT_TRUE(at::equal(y, x * 2));
  EXPECT_TRUE(at::allclose(f(x), at::exp(x) * 3, 1e-5, 1e-5));
}

TEST_F(TorchGpu, CompiledBlockAgreesAndIsReplayedInAGraph) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    at::manual_seed(3);
    const auto parameter = [&](at::IntArrayRef sizes) {
      return (at::randn(sizes, onGpu()) * 0.05).to(dtype).requires_grad_();
    };
    const Tensor scale = parameter({640}), up = parameter({1280, 640}),
                 down = parameter({640, 640});
    const auto block = [&](const Tensor& x) {
      const auto parts = at::linear(at::rms_norm(x, {640}, scale + 1, 1e-5), up).chunk(2, -1);
      return x + at::linear(at::silu(parts[0].contiguous()) * parts[1], down);
    };
    const Tensor x = at::randn({1000, 640}, onGpu()).to(dtype).requires_grad_();
    const auto compiled = compile(block, x, {.name = "gpu_block"});
    std::size_t kernels = 0;
    for (const CompiledRegion& region : compiled.regions())
      kernels += region.used;
    EXPECT_EQ(kernels, 2) << compiled.report();
    EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
    const auto both = [&](const auto& f) {
      const Tensor y = f(x);
      auto all = torch::autograd::grad({y}, {x, scale, up, down},
                                       {at::linspace(-1, 1, y.numel(), y.options()).view_as(y)});
      all.push_back(y.detach());
      return all;
    };
    const auto ours = both(compiled), theirs = both(block);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_LT((ours[i] - theirs[i]).norm().item<double>(),
                (dtype == at::kFloat ? 1e-3 : 3e-2) * theirs[i].norm().item<double>())
          << i << "\n"
          << compiled.report();

    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const Tensor replayed = compiled(x).detach();
    graph.capture_end();
    graph.replay();
    EXPECT_TRUE(at::equal(replayed, ours.back()));
  }
}

} // namespace
