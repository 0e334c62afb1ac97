// Fused functions, modules of them and compiled blocks on a GPU: as close to fp64 as what ATen
// makes of the formula. Skips without a GPU.
#include "test/torch/GpuHelpers.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/compile.h>
#include <kiln/nn.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

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

/// Queries and keys among values, as a product makes them, bit by bit as from memory of their own,
/// and two operands that are written over each other.
TEST_F(TorchGpu, FusedFunctionsWriteOverWhatTheyRead) {
  const auto turn =
      fuse([](Expr q, Expr k,
              Expr positions) { return std::array{rope(q, positions), rope(k, positions)}; },
           {.name = "turn_in_place"});
  const auto both = fuse([](Expr x, Expr y) { return std::array{x + 2 * y, x - y}; },
                         {.name = "over_each_other"});
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const auto& [tokens, heads, size] :
         {std::array<std::int64_t, 3>{16384, 16, 64}, {1023, 3, 40}, {2, 1, 128}, {777, 12, 2}}) {
      const Tensor all = at::randn({tokens, 3 * heads * size}, onGpu()).to(dtype),
                   before = all.clone();
      const auto parts = all.view({tokens, 3, heads, size}).unbind(1);
      const Tensor positions = at::randint(4096, {tokens, 1, 1}, onGpu().dtype(at::kInt));
      const auto [q, k] = turn(parts[0].contiguous(), parts[1].contiguous(), positions);
      const Tensor* const operands[] = {&parts[0], &parts[1], &positions};
      const Tensor results[] = {parts[0], parts[1]};
      turn.untyped().callInto(operands, results);
      EXPECT_TRUE(at::equal(parts[0], q) && at::equal(parts[1], k)) << q.sizes();
      EXPECT_TRUE(at::equal(parts[2], before.view({tokens, 3, heads, size}).select(1, 2)));
      const auto [sum, difference] = both(q, k);
      const Tensor* const pair[] = {&q, &k};
      both.untyped().callInto(pair, std::array{k, q});
      EXPECT_TRUE(at::equal(k, sum) && at::equal(q, difference)) << q.sizes();
    }
  EXPECT_GE(callsByKiln("turn_in_place"), 16U) << report();
}

/// The CPU and the first GPU have kernels of their own, whichever comes first.
TEST_F(TorchGpu, FusedFunctionsAreCalledOnCpuAndGpuInTurns) {
  const auto twice =
      fuse([](Expr x) { return rmsNorm(x) * 2; }, {.name = "on_both", .place = Place::cpu});
  for (const at::Device device : {at::kCPU, at::kCUDA, at::kCPU, at::kCUDA}) {
    const Tensor x = at::randn({9, 96});
    const Tensor y = twice(x.to(device));
    EXPECT_EQ(y.device().type(), device.type());
    EXPECT_TRUE(at::allclose(y.cpu(), at::rms_norm(x, {96}, {}, 1e-6) * 2, 1e-4, 1e-5));
  }
  EXPECT_EQ(callsByKiln("on_both"), 4U) << report();
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
