// Routed ops on a GPU: forward and backward beside fp64 and no worse than ATen, at the shapes of
// language models and of AlphaFold; when memory runs out; from several threads. Skips without a
// GPU.
#include "test/torch/GpuHelpers.h"

#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/baseline.h>
#include <kiln/profile.h>

#include <algorithm>
#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

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

/// What ATen makes of the same mask; as many elements are dropped as shall be, in whatever stream.
TEST_F(TorchGpu, DropoutFollowsItsMask) {
  enable(strict());
  for (auto dtype : {at::kFloat, at::kBFloat16})
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{65536, 128}, {8192, 1280}, {37, 1001}}) {
      const Tensor x = at::randn(shape, onGpu()).to(dtype);
      for (const auto& stream :
           {c10::cuda::getDefaultCUDAStream(), c10::cuda::getStreamFromPool()}) {
        c10::cuda::device_synchronize();
        const c10::cuda::CUDAStreamGuard side(stream);
        const auto [y, kept] = at::native_dropout(x, 0.1, true);
        const Tensor expected = x.to(at::kFloat) * kept * (1 / 0.9F);
        EXPECT_TRUE(at::allclose(y.to(at::kFloat), expected, dtype == at::kFloat ? 1e-6 : 8e-3));
        EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.9, 0.01);
        const Tensor dx = at::native_dropout_backward(y, kept, 1 / 0.9);
        disable();
        EXPECT_TRUE(at::equal(dx, at::native_dropout_backward(y, kept, 1 / 0.9)));
        enable(strict());
      }
    }
  EXPECT_GE(callsByKiln("native_dropout"), 12U) << report();
}

/// More than 2^31 elements: the last rows lie where 32 bits do not reach.
TEST_F(TorchGpu, HugeTensorsAreComputedToTheirEnd) {
  const std::int64_t rows = (std::int64_t(1) << 21) + 3, width = 1024;
  std::size_t free = 0, all = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &all));
  if (free < static_cast<std::size_t>(4 * rows * width * 2))
    GTEST_SKIP() << "four tensors of " << rows * width << " elements do not fit into this GPU";
  enable(strict());
  const Tensor x = at::empty({rows, width}, onGpu(at::kBFloat16)).normal_();
  const Tensor w = at::randn({width}, onGpu(at::kBFloat16)), last = x.slice(0, rows - 5);
  const auto expectEnd = [&](const Tensor& ours, const std::function<Tensor()>& theirs) {
    const Guard off(Mode::off);
    EXPECT_TRUE(at::allclose(ours.slice(0, rows - 5), theirs(), 1e-2, 1e-2));
  };
  expectEnd(at::softmax(x, 1), [&] { return at::softmax(last, 1); });
  expectEnd(at::layer_norm(x, {width}, w, w), [&] { return at::layer_norm(last, {width}, w, w); });
  expectEnd(at::gelu(x), [&] { return at::gelu(last); });
  const auto [y, kept] = at::native_dropout(x, 0.5, true);
  expectEnd(y, [&] { return last * kept.slice(0, rows - 5) * 2; });
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
        const auto before = callsByKiln("cross_entropy_loss");
        const auto ours = run(loss, {x}, cotangent, dtype);
        EXPECT_EQ(callsByKiln("cross_entropy_loss"), before + 1) << report();
        disable();
        const auto theirs = run(loss, {x}, cotangent, dtype);
        const auto exact = run(loss, {x}, cotangent, at::kDouble);
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_LE(errorOf(ours[i], exact[i]),
                    1.5 * errorOf(theirs[i], exact[i]) + roundingOf(exact[i], dtype))
              << shape[0] << "x" << shape[1] << " " << dtype << " tensor " << i;
      }
}

/// One over the number of rows that count (3), loss and gradient with the loss's total (2), the
/// mean; and what ends at once because the loss's gradient is one.
TEST_F(TorchGpu, CrossEntropyAndItsGradientAreSevenLaunches) {
  const Tensor t = at::arange(4096, onGpu(at::kLong)) % 1000, one = at::ones({}, onGpu());
  const Tensor x = at::randn({4096, 1000}, onGpu()).requires_grad_();
  const auto step = [&] { torch::autograd::grad({at::cross_entropy_loss(x, t)}, {x}, {one}); };
  step();
  auto profiler = profile::makeProfiler();
  profiler.start();
  step();
  profiler.stop();
  std::int64_t launched = 0;
  for (const profile::Row& row : profiler.kernels())
    launched += row.calls;
  EXPECT_EQ(launched, 7) << report();
}

/// The first call of a shape is ATen's: it computes in fp32 what autocast computes in fp32.
TEST_F(TorchGpu, FirstCallsUnderAutocastAreATens) {
  Options patient;
  patient.mode = Mode::use;
  enable(patient);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const Tensor x = at::randn({512, 1029}, at::device(at::kCUDA).dtype(type));
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    const Tensor soft = at::softmax(x, 1), logSoft = at::log_softmax(x, 1);
    at::autocast::set_autocast_enabled(at::kCUDA, false);
    EXPECT_EQ(soft.scalar_type(), at::kFloat);
    EXPECT_LT(errorOf(soft, at::softmax(x.to(at::kDouble), 1)), 1e-6);
    EXPECT_LT(errorOf(logSoft, at::log_softmax(x.to(at::kDouble), 1)), 1e-5);
  }
}

/// Beside ATen under autocast: the same types, and as close to fp64; with weights of fp32 and of
/// half precision.
TEST_F(TorchGpu, AutocastsHalfPrecisionIsReadAsItIs) {
  const Tensor t = at::arange(4096, onGpu(at::kLong)) % 1000;
  const std::pair<const char*, Function> all[] = {
      {"layer_norm", [](const auto& in) { return at::layer_norm(in[0], {1000}, in[1], in[1]); }},
      {"rms_norm", [](const auto& in) { return at::rms_norm(in[0], {1000}, in[1], 1e-6); }},
      {"softmax.int", [](const auto& in) { return at::softmax(in[0], -1) * in[1]; }},
      {"log_softmax.int", [](const auto& in) { return at::log_softmax(in[0], -1) * in[1]; }},
      {"cross_entropy_loss",
       [&](const auto& in) { return at::cross_entropy_loss(in[0], t) * in[1]; }}};
  for (auto [dtype, weights] : {std::pair(at::kBFloat16, at::kFloat),
                                {at::kHalf, at::kFloat},
                                {at::kBFloat16, at::kBFloat16},
                                {at::kHalf, at::kHalf}}) {
    const Tensor x = at::randn({4096, 1000}, onGpu()).to(dtype),
                 w = at::randn({1000}, onGpu()).to(weights);
    for (const auto& [name, function] : all) {
      if (weights == dtype && std::string_view(name) == "rms_norm")
        continue; // nothing of autocast's: _fused_rms_norm
      const auto results = [&, &function = function, dtype = dtype,
                            weights = weights](bool autocast) {
        const auto type = [&](at::ScalarType narrow) { return autocast ? narrow : at::kDouble; };
        const std::vector<Tensor> in = {x.detach().to(type(dtype)).requires_grad_(),
                                        w.detach().to(type(weights)).requires_grad_()};
        at::autocast::set_autocast_enabled(at::kCUDA, autocast);
        const Tensor y = function(in);
        at::autocast::set_autocast_enabled(at::kCUDA, false);
        const Tensor dy = at::linspace(-1, 1.5, y.numel(), onGpu()).view_as(y) * 100;
        auto all = torch::autograd::grad({y}, in, {dy.to(y.scalar_type())});
        all.push_back(y.detach());
        return all;
      };
      enable(strict());
      const auto before = callsByKiln(name);
      const auto ours = results(true);
      EXPECT_EQ(callsByKiln(name), before + 1) << name << "\n" << report();
      disable();
      const auto theirs = results(true), exact = results(false);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].scalar_type(), theirs[i].scalar_type()) << name;
        EXPECT_LE(errorOf(ours[i], exact[i]),
                  1.5 * errorOf(theirs[i], exact[i]) + roundingOf(exact[i], ours[i].scalar_type()))
            << name << " " << dtype << ", weights " << weights << ", tensor " << i;
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

/// While kernels arrive, and once they are there.
TEST_F(TorchGpu, ThreadsOnStreamsOfTheirOwn) {
  enable({});
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        const c10::cuda::CUDAStreamGuard own(c10::cuda::getStreamFromPool());
        for (int i = 0; i < 200; ++i) {
          const Tensor x = at::randn({64 + i, 128 * (1 + (t + i) % 4)}, onGpu());
          const Tensor y = at::layer_norm(x, {x.size(1)});
          const Tensor centred = x - x.mean(1, true);
          const Tensor scale = (centred.square().mean(1, true) + 1e-5).rsqrt();
          wrong += !at::allclose(y, centred * scale, 1e-3, 1e-4);
        }
      });
    threads.clear();
    kiln::wait();
  }
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

} // namespace
