// The routers without a GPU: at the CPU key, with kernels that the host target executes, beside
// what ATen computes. Everything but launching is the code that runs on a GPU.
#include "test/torch/Helpers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// Result, then gradients of the inputs for a fixed cotangent.
std::vector<Tensor> run(const Function& function, const std::vector<Tensor>& values) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values)
    inputs.push_back(value.detach().requires_grad_());
  Tensor y = function(inputs);
  Tensor cotangent = at::linspace(-1, 1, y.numel()).view(y.sizes()).to(y.scalar_type());
  std::vector<Tensor> all = torch::autograd::grad({y}, inputs, {cotangent});
  all.insert(all.begin(), y.detach());
  return all;
}

struct Case {
  const char* name;
  std::vector<const char*> ops; // that must have run on Kiln
  Function function;
  int parameters; // inputs behind x, of the shape of its last dimension
};

const Case cases[] = {
    {"layer_norm",
     {"native_layer_norm", "native_layer_norm_backward"},
     [](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], 1e-5); },
     2},
    {"layer_norm_without_bias",
     {"native_layer_norm", "native_layer_norm_backward"},
     [](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}, in[1], {}, 1e-3); },
     1},
    {"layer_norm_plain",
     {"native_layer_norm", "native_layer_norm_backward"},
     [](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}, {}, {}, 1e-5); },
     0},
    {"softmax",
     {"_softmax", "_softmax_backward_data"},
     [](const auto& in) { return at::softmax(in[0], -1); },
     0},
    {"log_softmax",
     {"_log_softmax", "_log_softmax_backward_data"},
     [](const auto& in) { return at::log_softmax(in[0], -1); },
     0},
    {"gelu", {"gelu", "gelu_backward"}, [](const auto& in) { return at::gelu(in[0]); }, 0},
    {"gelu_tanh",
     {"gelu", "gelu_backward"},
     [](const auto& in) { return at::gelu(in[0], "tanh"); },
     0},
    {"silu", {"silu", "silu_backward"}, [](const auto& in) { return at::silu(in[0]); }, 0},
};

std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << one.name;
}

class Ops : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

TEST_P(Ops, AgreeWithATen) {
  const auto& [one, dtype] = GetParam();
  for (std::vector<std::int64_t> shape : {std::vector<std::int64_t>{6, 64}, {2, 3, 33}, {5, 1}}) {
    torch::manual_seed(1);
    std::vector<Tensor> values = {at::randn(shape).to(dtype)};
    for (int i = 0; i < one.parameters; ++i)
      values.push_back(at::randn({shape.back()}).to(dtype));
    disable();
    const auto theirs = run(one.function, values);
    std::vector<std::uint64_t> before;
    enable(strictOnCpu());
    for (const char* op : one.ops)
      before.push_back(callsByKiln(op));
    const auto ours = run(one.function, values);
    for (std::size_t i = 0; i < one.ops.size(); ++i)
      EXPECT_EQ(callsByKiln(one.ops[i]), before[i] + 1) << one.ops[i];
    for (std::size_t i = 0; i < ours.size(); ++i)
      expectClose(ours[i], theirs[i], std::string(one.name) + " " + std::to_string(i));
    const auto again = run(one.function, values);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::equal(ours[i], again[i])) << "not repeatable: " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Torch, Ops,
                         testing::Combine(testing::ValuesIn(cases),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST(Torch, SavedTensorsAreATens) {
  const Tensor x = at::randn({4, 3, 2, 16}), w = at::randn({2, 16}), b = at::randn({2, 16});
  disable();
  auto [y, mean, rstd] = at::native_layer_norm(x, {2, 16}, w, b, 1e-5);
  enable(strictOnCpu());
  auto [y2, mean2, rstd2] = at::native_layer_norm(x, {2, 16}, w, b, 1e-5);
  EXPECT_EQ(mean2.sizes(), (at::IntArrayRef{4, 3, 1, 1}));
  expectClose(y2, y, "y");
  expectClose(mean2, mean, "mean");
  expectClose(rstd2, rstd, "rstd");
  // Either side's backward runs on what the other has saved.
  const Tensor dy = at::randn_like(x);
  auto ours = at::native_layer_norm_backward(dy, x, {2, 16}, mean, rstd, w, b, {true, true, true});
  disable();
  auto theirs =
      at::native_layer_norm_backward(dy, x, {2, 16}, mean2, rstd2, w, b, {true, true, true});
  expectClose(std::get<0>(ours), std::get<0>(theirs), "dx");
  expectClose(std::get<1>(ours), std::get<1>(theirs), "dgamma");
  expectClose(std::get<2>(ours), std::get<2>(theirs), "dbeta");
}

TEST(Torch, MasksOfWantedGradients) {
  const Tensor x = at::randn({9, 24}), w = at::randn({24}), b = at::randn({24}),
               dy = at::randn({9, 24});
  disable();
  auto [y, mean, rstd] = at::native_layer_norm(x, {24}, w, b, 1e-5);
  for (unsigned bits = 0; bits < 8; ++bits) {
    const std::array<bool, 3> mask = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    disable();
    auto theirs = at::native_layer_norm_backward(dy, x, {24}, mean, rstd, w, b, mask);
    Options options = onCpu();
    options.strict = bits != 0; // nothing wanted is ATen's business
    enable(options);
    const auto before = callsByKiln("native_layer_norm_backward");
    auto ours = at::native_layer_norm_backward(dy, x, {24}, mean, rstd, w, b, mask);
    EXPECT_EQ(callsByKiln("native_layer_norm_backward"), before + (bits != 0));
    EXPECT_EQ(std::get<0>(ours).defined(), mask[0]);
    expectClose(std::get<0>(ours), std::get<0>(theirs), "dx");
    expectClose(std::get<1>(ours), std::get<1>(theirs), "dgamma");
    expectClose(std::get<2>(ours), std::get<2>(theirs), "dbeta");
  }
}

TEST(Torch, RmsNorm) {
  enable(strictOnCpu());
  const Tensor x = at::randn({7, 40}), w = at::randn({40}), dy = at::randn({7, 40});
  for (std::optional<double> eps : {std::optional<double>(1e-6), std::optional<double>()}) {
    auto [y, rstd] = at::_fused_rms_norm(x, {40}, w, eps);
    const double e = eps.value_or(std::numeric_limits<float>::epsilon());
    const Tensor x2 = x.detach().requires_grad_(), w2 = w.detach().requires_grad_();
    const Tensor r = (x2.square().mean(-1, true) + e).rsqrt();
    expectClose(y, (x * r * w).detach(), "y");
    expectClose(rstd, r.detach(), "rstd");
    const auto grads = torch::autograd::grad({x2 * r * w2}, {x2, w2}, {dy});
    auto [dx, dw] = at::_fused_rms_norm_backward(dy, x, {40}, rstd, w, {true, true});
    expectClose(dx, grads[0], "dx");
    expectClose(dw, grads[1], "dw");
    auto [dx2, none] = at::_fused_rms_norm_backward(dy, x, {40}, rstd, w, {true, false});
    expectClose(dx2, dx, "dx alone");
    EXPECT_FALSE(none.defined());
    const Guard off(Mode::off); // ATen has no kernel for the CPU to fall back to
    auto [dx3, dw3] = at::_fused_rms_norm_backward(dy, x, {40}, rstd, w, {true, true});
    expectClose(dx3, grads[0], "dx by formula");
    expectClose(dw3, grads[1], "dw by formula");
  }
}

TEST(Torch, HalfToFloat) {
  enable(strictOnCpu());
  const Tensor x = at::randn({5, 31}).to(at::kBFloat16), dy = at::randn({5, 31});
  const Tensor y = at::_softmax(x, -1, true);
  expectClose(y, at::softmax(x.to(at::kFloat), -1), "softmax");
  const Tensor dx = at::_softmax_backward_data(dy, y, 1, at::kBFloat16);
  expectClose(dx, (y * (dy - (y * dy).sum(-1, true))).to(at::kBFloat16), "its gradient");
}

/// Loss, gradient and, of fp32, the gradient of the gradient.
std::vector<Tensor> crossEntropyOf(const Tensor& values, const Tensor& classes,
                                   std::int64_t reduction, double smoothing) {
  const Tensor x = values.detach().requires_grad_();
  const Tensor loss = at::cross_entropy_loss(x, classes, {}, reduction, 3, smoothing);
  const double scale = reduction == at::Reduction::Mean ? static_cast<double>(x.size(0)) : 1;
  const Tensor cotangent =
      (at::linspace(1, 2, loss.numel()).view(loss.sizes()) * scale).to(loss.scalar_type());
  std::vector<Tensor> all = {loss.detach()};
  all.push_back(torch::autograd::grad({loss}, {x}, {cotangent}, true)[0]);
  if (x.scalar_type() == at::kFloat) {
    const Tensor again = torch::autograd::grad({loss}, {x}, {cotangent}, true, true)[0];
    all.push_back(again.detach());
    all.push_back(torch::autograd::grad({again.square().sum()}, {x})[0]);
  }
  return all;
}

TEST(Torch, CrossEntropyAndItsGradientAreOnePass) {
  for (auto [dtype, classes] :
       {std::pair(at::kFloat, 1000), {at::kBFloat16, 1003}, {at::kHalf, 1024}})
    for (auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum})
      for (double smoothing : {0.0, 0.1}) {
        if (dtype == at::kHalf && smoothing > 0)
          continue; // ATen's own sums overflow
        torch::manual_seed(1);
        const Tensor x = at::randn({70, classes}).to(dtype), t = at::randint(classes, {70});
        t.slice(0, 5, 9).fill_(3); // ignored
        disable();
        const auto theirs = crossEntropyOf(x, t, reduction, smoothing);
        enable(strictOnCpu());
        const auto losses = callsByKiln("cross_entropy_loss");
        const auto ours = crossEntropyOf(x, t, reduction, smoothing);
        EXPECT_EQ(callsByKiln("cross_entropy_loss"), losses + 1);
        for (std::size_t i = 0; i < ours.size(); ++i)
          expectClose(ours[i], theirs[i], std::to_string(i));
        EXPECT_TRUE(at::equal(ours[1][6], at::zeros_like(ours[1][6])));
      }
}

/// Of the mean, by ATen.
Tensor slopeInFp64(const Tensor& x, const Tensor& classes) {
  const Guard off(Mode::off);
  const Tensor exact = x.detach().to(at::kDouble).requires_grad_();
  return torch::autograd::grad({at::cross_entropy_loss(exact, classes)}, {exact})[0];
}

/// Whatever gradient the loss gets, and however often.
TEST(Torch, ALosssGradientIsScaledWithoutChangingWhatIsKept) {
  enable(strictOnCpu());
  for (auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (std::int64_t classes : {1000, 1024}) {
      const Tensor values = at::randn({70, classes}), t = at::randint(classes, {70}),
                   x = values.to(dtype).requires_grad_();
      const Tensor slope = slopeInFp64(x, t);
      const Tensor loss = at::cross_entropy_loss(x, t);
      const auto gradient = [&](double of, bool isKept) {
        const Tensor dloss = at::full_like(loss, of);
        const Tensor dx = torch::autograd::grad({loss}, {x}, {dloss}, isKept)[0];
        const Tensor error = dx.to(at::kDouble) - slope * of;
        EXPECT_LT(error.abs().max().item<double>(),
                  toleranceOf(dtype) * slope.abs().max().item<double>() * std::abs(of))
            << dtype << " " << classes << " " << of;
        return dx;
      };
      const Tensor first = gradient(1, true), copy = first.clone();
      gradient(-2.5, true);
      gradient(1, true);
      gradient(1 / 3., false);
      EXPECT_TRUE(at::equal(first, copy));                          // none is another's memory
      EXPECT_THROW(torch::autograd::grad({loss}, {x}), c10::Error); // nothing is kept any more
    }
}

/// Of a mean over many rows these are too small for fp16, unless the loss's gradient is large:
/// that is what losses are scaled for.
TEST(Torch, SmallGradientsOfALossInFp16AreNotLost) {
  enable(strictOnCpu());
  const Tensor t = at::randint(100, {4096}),
               x = (at::randn({4096, 100}) * 3).to(at::kHalf).requires_grad_();
  const Tensor exact = slopeInFp64(x, t);
  EXPECT_LT(exact.abs().min().item<double>(), 0x1p-25); // less than fp16 has
  (at::cross_entropy_loss(x, t) * 0x1p15).backward();
  const Tensor error = (x.grad().to(at::kDouble) - exact * 0x1p15).abs();
  EXPECT_TRUE((error <= exact.abs() * 0x1p6 + 0x1p-24).all().item<bool>());
}

/// ATen keeps a log-softmax of its own.
TEST(Torch, LogitsMayBeOverwrittenOnceTheLossIsThere) {
  const auto gradient = [](std::int64_t reduction) {
    torch::manual_seed(2);
    const Tensor x = at::randn({70, 1000}).requires_grad_(), t = at::randint(1000, {70});
    const Tensor h = x * 1;
    const Tensor loss = at::cross_entropy_loss(h, t, {}, reduction).sum();
    h.mul_(0.5);
    loss.backward();
    return x.grad();
  };
  for (auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    disable();
    const Tensor theirs = gradient(reduction);
    enable(strictOnCpu());
    expectClose(gradient(reduction), theirs, std::to_string(reduction));
  }
}

TEST(Torch, CrossEntropyOfClassesThatAreNoneIsNaN) {
  enable(strictOnCpu());
  const Tensor x = at::randn({70, 1000}).requires_grad_(), t = at::randint(1000, {70});
  t[7] = 1000;
  t[8] = -1;
  const Tensor loss = at::cross_entropy_loss(x, t, {}, at::Reduction::None);
  loss.sum().backward();
  EXPECT_EQ(loss.isnan().sum().item<int>(), 2);
  EXPECT_EQ(x.grad().isnan().all(1).sum().item<int>(), 2);
  EXPECT_TRUE(x.grad().isfinite().slice(0, 9).all().item<bool>());
  EXPECT_TRUE(reports("note on cross_entropy_loss: a class out of range gives a NaN loss"))
      << report();
}

TEST(Torch, OtherCrossEntropiesAreATens) {
  enable(onCpu());
  const Tensor x = at::randn({70, 1000}), t = at::randint(1000, {70}), w = at::rand({1000});
  const std::pair<const char*, std::function<Tensor()>> all[] = {
      {"weights of classes", [&] { return at::cross_entropy_loss(x, t, w); }},
      {"a class for each row", [&] { return at::cross_entropy_loss(x, at::softmax(x, 1)); }},
      {"a class for each row",
       [&] { return at::cross_entropy_loss(x.view({7, 1000, 10}), t.view({7, 10})); }},
      {"so few numbers that launches",
       [&] { return at::cross_entropy_loss(x.slice(0, 0, 9), t.slice(0, 0, 9)); }},
      {"a dtype other than", [&] { return at::cross_entropy_loss(x.to(at::kDouble), t); }},
  };
  const auto before = callsByKiln("cross_entropy_loss");
  for (const auto& [reason, call] : all) {
    const Tensor ours = call();
    EXPECT_TRUE(reports(reason)) << reason << report();
    const Guard off(Mode::off);
    expectClose(ours, call(), reason);
  }
  EXPECT_EQ(callsByKiln("cross_entropy_loss"), before);
  EXPECT_THROW(at::cross_entropy_loss(x, t.slice(0, 1)), c10::Error); // ATen says what is wrong
}

TEST(Torch, Strides) {
  const auto layerNorm = [](const std::vector<Tensor>& in) {
    return at::layer_norm(in[0].transpose(0, 1), {in[0].size(0)}, in[1], in[1], 1e-5);
  };
  const auto expanded = [](const std::vector<Tensor>& in) { // a gradient of stride 0
    return at::softmax(in[0], 1).sum(1).expand({3, -1}) + at::layer_norm(in[0], {16}).sum();
  };
  const auto permuted = [](const std::vector<Tensor>& in) { // results keep the order in memory
    return at::silu(in[0].permute({1, 0}));
  };
  const Tensor x = at::randn({16, 16}), w = at::randn({16});
  for (const auto& [function, values] :
       {std::pair<Function, std::vector<Tensor>>(layerNorm, {x, w}),
        {expanded, {x}},
        {permuted, {x}}}) {
    disable();
    const auto theirs = run(function, values);
    enable(onCpu());
    run(function, values);
    wait();
    const auto ours = run(function, values);
    for (std::size_t i = 0; i < ours.size(); ++i)
      expectClose(ours[i], theirs[i], std::to_string(i));
  }
}

TEST(Torch, DoubleBackward) {
  const auto second = [](const Function& f, const Tensor& value) {
    const Tensor x = value.detach().requires_grad_();
    const Tensor y = f({x});
    const Tensor dx = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({dx.square().sum()}, {x})[0];
  };
  for (const Function& f : {Function([](const auto& in) { return at::layer_norm(in[0], {12}); }),
                            Function([](const auto& in) { return at::softmax(in[0], -1); }),
                            Function([](const auto& in) { return at::gelu(in[0]); }),
                            Function([](const auto& in) { return at::silu(in[0]); })}) {
    const Tensor x = at::randn({4, 12});
    disable();
    const Tensor theirs = second(f, x);
    enable(onCpu());
    second(f, x);
    wait();
    expectClose(second(f, x), theirs, "second gradient");
  }
}

TEST(Torch, ATrainedModuleComesToTheSame) {
  const auto train = [] {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(16, 32),
                                torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                                torch::nn::GELU(), torch::nn::Linear(32, 8));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const Tensor x = at::randn({12, 16}), labels = at::arange(12).remainder(8);
    Tensor loss;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      loss = torch::nn::functional::cross_entropy(model->forward(x), labels);
      loss.backward();
      optimizer.step();
    }
    return loss;
  };
  disable();
  const Tensor theirs = train();
  enable(strictOnCpu());
  const auto before = callsByKiln("native_layer_norm");
  expectClose(train().detach(), theirs.detach(), "loss");
  EXPECT_EQ(callsByKiln("native_layer_norm"), before + 5);
}

} // namespace
