// Inside CUDA graphs: routed ops, also under autocast, fused functions and modules are captured
// once and replayed on other numbers; what is not compiled yet breaks no capture. Skips without a
// GPU.
#include "test/torch/GpuHelpers.h"

#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/fuse.h>
#include <kiln/nn.h>

#include <deque>
#include <tuple>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

/// Captures a step and replays it on other numbers: what eager steps give, bit by bit, and in each
/// step every op is one of Kiln's kernels.
void expectReplays(const std::function<std::vector<Tensor>()>& step,
                   const std::function<void()>& change, const std::vector<std::string>& ops,
                   const std::string& what) {
  c10::cuda::device_synchronize(); // operands were made on another stream
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  step();
  std::vector<std::uint64_t> before;
  for (const std::string& op : ops)
    before.push_back(callsByKiln(op));
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const std::vector<Tensor> captured = step();
  graph.capture_end();
  for (std::size_t i = 0; i < ops.size(); ++i)
    EXPECT_EQ(callsByKiln(ops[i]), before[i] + 1) << ops[i] << " " << what << "\n" << report();
  for (int round = 0; round < 3; ++round) {
    change();
    graph.replay();
    const std::vector<Tensor> eager = step();
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(at::equal(captured[i], eager[i]))
          << ops[0] << " " << what << ", round " << round << ", tensor " << i;
  }
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
  const auto change = [&] {
    x.normal_();
    dy.normal_();
  };
  expectReplays(step, change, {"native_layer_norm", "native_layer_norm_backward"}, "");
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

/// Each replay draws other masks: those that eager steps draw from the same state of the generator.
TEST_F(TorchGpu, AGraphDrawsAMaskAReplay) {
  const Tensor x = at::randn({4096, 640}, onGpu());
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  const auto step = [&] { return std::get<1>(at::native_dropout(x, 0.25, true)); };
  c10::cuda::device_synchronize(); // operands were made on another stream
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  step();
  const auto before = callsByKiln("native_dropout");
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const Tensor first = step(), second = step();
  graph.capture_end();
  EXPECT_EQ(callsByKiln("native_dropout"), before + 2) << report();
  for (std::uint64_t seed : {1, 2}) {
    generator.set_current_seed(seed);
    graph.replay();
    const Tensor kept[] = {first.clone(), second.clone()};
    graph.replay();
    EXPECT_FALSE(at::equal(first, kept[0]));
    generator.set_current_seed(seed);
    for (const Tensor& mask : {kept[0], kept[1], first, second})
      EXPECT_TRUE(at::equal(mask, step()));
  }
}

/// The loss with its gradient, one routed kernel, of other logits and other classes.
TEST_F(TorchGpu, AGraphReplaysTheLossAndItsGradient) {
  for (auto dtype : {at::kFloat, at::kBFloat16})
    for (auto reduction : {at::Reduction::Mean, at::Reduction::Sum, at::Reduction::None}) {
      const Tensor x = at::randn({4096, 1000}, onGpu()).to(dtype).requires_grad_(),
                   t = at::randint(1000, {4096}, onGpu(at::kLong)),
                   dloss = at::randn(reduction == at::Reduction::None ? at::IntArrayRef({4096})
                                                                      : at::IntArrayRef(),
                                     onGpu())
                               .to(dtype);
      const auto step = [&] {
        const Tensor loss = at::cross_entropy_loss(x, t, {}, reduction, -100, 0.1);
        return std::vector{loss.detach(), torch::autograd::grad({loss}, {x}, {dloss})[0]};
      };
      const auto change = [&] {
        x.detach().normal_();
        dloss.normal_();
        t.random_(0, 1000).slice(0, 7, 11).fill_(-100);
      };
      expectReplays(step, change, {"cross_entropy_loss"},
                    std::string(c10::toString(dtype)) + ", reduction " + std::to_string(reduction));
    }
}

/// Each replay counts the rows whose class is none, on whatever stream, beside eager calls on
/// another. The first call on the device is none that is captured.
TEST_F(TorchGpu, AGraphsReplaysCountRowsWhoseClassIsNone) {
  const Tensor x = at::randn({4096, 1000}, onGpu()).requires_grad_(),
               t = at::arange(4096, onGpu(at::kLong)) % 1000;
  t.slice(0, 0, 3).fill_(1000);
  t.slice(0, 3, 5).fill_(-1);
  const auto trained = [&] { torch::autograd::grad({at::cross_entropy_loss(x, t)}, {x}); };
  const auto watched = [&] { at::cross_entropy_loss(x.detach(), t, {}, at::Reduction::Sum); };
  watched();
  c10::cuda::device_synchronize(); // operands were made on another stream
  const auto before = rowsOutside();
  std::deque<at::cuda::CUDAGraph> graphs(2);
  for (auto& graph : graphs) {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    trained();
    watched();
    EXPECT_TRUE(reports("a capture, keeps from being read how many rows")) << report();
    graph.capture_end();
  }
  EXPECT_EQ(rowsOutside(), before);
  for (int i = 0; i < 20; ++i) {
    for (auto& graph : graphs) {
      const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
      graph.replay();
    }
    watched();
  }
  c10::cuda::device_synchronize();
  EXPECT_EQ(rowsOutside(), before + 5 * 20 * (2 * 2 + 1)) << report();
}

/// What autocast computes in fp32: read in half precision by one kernel also under capture.
TEST_F(TorchGpu, AGraphReplaysWhatAutocastComputesInFp32) {
  const Tensor w = at::randn({1000}, onGpu()).requires_grad_(),
               t = at::randint(1000, {4096}, onGpu(at::kLong));
  const std::tuple<const char*, const char*, Function> all[] = {
      {"layer_norm", "layer_norm_backward",
       [](const auto& in) { return at::layer_norm(in[0], {1000}, in[1], in[1]); }},
      {"softmax.int", "softmax_backward",
       [](const auto& in) { return at::softmax(in[0], -1) * in[1]; }},
      {"log_softmax.int", "log_softmax_backward",
       [](const auto& in) { return at::log_softmax(in[0], -1) * in[1]; }},
      {"cross_entropy_loss", "cross_entropy_share",
       [&](const auto& in) { return at::cross_entropy_loss(in[0], t) * in[1]; }}};
  for (auto dtype : {at::kBFloat16, at::kHalf}) {
    const Tensor x = at::randn({4096, 1000}, onGpu()).to(dtype).requires_grad_();
    for (const auto& [forward, backward, function] : all) {
      const auto step = [&, &function = function] {
        at::autocast::set_autocast_enabled(at::kCUDA, true);
        const Tensor y = function({x, w});
        at::autocast::set_autocast_enabled(at::kCUDA, false);
        const Tensor dy = at::linspace(-1, 1.5, y.numel(), y.options()).view_as(y);
        auto results = torch::autograd::grad({y}, {x, w}, {dy});
        results.push_back(y.detach());
        return results;
      };
      EXPECT_EQ(step().back().scalar_type(), at::kFloat) << forward;
      const auto change = [&] {
        x.detach().normal_();
        w.detach().normal_();
        t.random_(0, 1000);
      };
      expectReplays(step, change, {forward, backward}, c10::toString(dtype));
    }
  }
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

} // namespace
