// The routers without a GPU: at the CPU key, with kernels that the host target executes, beside
// what ATen computes. Everything but launching is the code that runs on a GPU.
#include "test/torch/Report.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

/// Another library's kernel, registered before Kiln's routers are: what they must fall back to, and
/// a wrong result for the verify mode to find.
std::tuple<Tensor, Tensor> twice(const Tensor& x, at::IntArrayRef, const std::optional<Tensor>&,
                                 std::optional<double>) {
  return {x * 2, x.sum(-1, true)};
}
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_fused_rms_norm", &twice);
}

Options onCpu() {
  Options options;
  options.place = Place::cpu;
  return options;
}
Options strictOnCpu() {
  Options options = onCpu();
  options.strict = true;
  return options;
}

double toleranceOf(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1.6e-2;
}

void expectClose(const Tensor& ours, const Tensor& theirs, const std::string& what) {
  ASSERT_EQ(ours.defined(), theirs.defined()) << what;
  if (!ours.defined())
    return;
  EXPECT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_EQ(ours.strides(), theirs.strides()) << what;
  EXPECT_EQ(ours.scalar_type(), theirs.scalar_type()) << what;
  const double tolerance = toleranceOf(theirs.scalar_type());
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), theirs.to(at::kDouble), tolerance,
                           tolerance * (1 + theirs.to(at::kDouble).abs().max().item<double>()),
                           /*equal_nan=*/true))
      << what << ": " << (ours - theirs).abs().max().item<double>();
}

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

void PrintTo(const Case& one, std::ostream* stream) {
  *stream << one.name;
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

TEST(Torch, WhatIsNotTakenRunsOnATenForACountedReason) {
  enable(onCpu());
  const Tensor x = at::randn({4, 8});
  struct Refused {
    const char* reason;
    std::function<Tensor()> call;
  };
  const Refused all[] = {
      {"a dtype other than fp32, bf16 and fp16",
       [&] { return at::layer_norm(x.to(at::kDouble), {8}); }},
      {"an empty tensor", [&] { return at::layer_norm(x.slice(0, 0, 0), {8}); }},
      {"an empty tensor", [&] { return at::gelu(x.slice(1, 0, 0)); }},
      {"a tensor without dimensions", [&] { return at::softmax(x[0][0], 0); }},
      {"a dimension other than the last", [&] { return at::softmax(x, 0); }},
      {"rows wider than 65536", [&] { return at::softmax(at::ones({1, 65537}), 1); }},
      {"a pointer that is no multiple of 16 bytes",
       [&] { return at::silu(at::ones({9}).slice(0, 1)); }},
      {"strides that overlap", [&] { return at::silu(x.slice(1, 0, 8, 2)); }},
      {"a bias without a weight", [&] { return at::layer_norm(x, {8}, {}, x[0]); }},
  };
  for (const Refused& one : all) {
    const Tensor ours = one.call();
    const Guard off(Mode::off);
    EXPECT_TRUE(at::equal(ours, one.call())) << one.reason;
    EXPECT_TRUE(reports(one.reason)) << one.reason << "\n" << report();
  }
  EXPECT_THROW(at::layer_norm(x, {7}), c10::Error); // ATen says what is wrong
}

TEST(Torch, StrictModeSaysWhatIsNotTaken) {
  enable(strictOnCpu());
  const Tensor x = at::randn({4, 8});
  at::gelu(x.slice(0, 0, 0)); // nothing to do is no failure
  try {
    at::layer_norm(x.to(at::kDouble), {8});
    FAIL() << "fp64 was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "native_layer_norm of [4, 8] Double is not taken: a dtype other than "
                 "fp32, bf16 and fp16; without KILN_STRICT ATen computes it");
  }
}

TEST(Torch, AMissRunsOnATenUntilTheKernelIsThere) {
  enable(onCpu());
  const Tensor x = at::randn({3, 48});
  const auto before = callsByKiln("_softmax");
  const Tensor first = at::softmax(x, 1);
  EXPECT_EQ(callsByKiln("_softmax"), before);
  wait();
  expectClose(at::softmax(x, 1), first, "softmax");
  EXPECT_EQ(callsByKiln("_softmax"), before + 1) << report();
  at::softmax(at::randn({2, 48}), 1); // of the same class of row counts
  EXPECT_EQ(callsByKiln("_softmax"), before + 2) << report();
  EXPECT_TRUE(reports("3x48 f32")) << report();
  EXPECT_TRUE(reports("the cost model's choice; x -> y")) << report();
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

TEST(Torch, EnableDisableEnable) {
  const Tensor x = at::randn({4, 16});
  for (int round = 0; round < 3; ++round) {
    enable(strictOnCpu());
    const auto before = callsByKiln("silu");
    at::silu(x);
    EXPECT_EQ(callsByKiln("silu"), before + 1);
    disable();
    at::silu(x);
    EXPECT_EQ(callsByKiln("silu"), before + 1);
  }
}

TEST(Torch, GuardsReachAutogradsThreads) {
  enable(strictOnCpu());
  disable();
  const Tensor x = at::randn({4, 16}).requires_grad_();
  const auto before = callsByKiln("silu_backward");
  {
    const Guard on(strictOnCpu());
    (at::silu(x) * x.detach()).sum().backward();
    const at::ThreadLocalState state; // what the engine installs in its threads
    std::thread([&] {
      const at::ThreadLocalStateGuard installed(state);
      at::silu_backward(x.detach(), x.detach());
    }).join();
    {
      const Guard off(Mode::off);
      at::silu_backward(x.detach(), x.detach());
    }
  }
  at::silu_backward(x.detach(), x.detach());
  EXPECT_EQ(callsByKiln("silu_backward"), before + 2);
}

TEST(Torch, OpLists) {
  const Tensor x = at::randn({4, 16});
  const auto taken = [&](const std::string& ops) {
    Options options = strictOnCpu();
    options.ops = ops;
    enable(options);
    const auto silus = callsByKiln("silu"), gelus = callsByKiln("gelu");
    at::silu(x);
    at::gelu(x);
    return std::pair(callsByKiln("silu") > silus, callsByKiln("gelu") > gelus);
  };
  EXPECT_EQ(taken(""), std::pair(true, true));
  EXPECT_EQ(taken("silu"), std::pair(true, false));
  EXPECT_EQ(taken("silu,gelu_backward"), std::pair(true, false));
  EXPECT_EQ(taken("-silu"), std::pair(false, true));
  EXPECT_EQ(taken("-silu,+silu,-gelu"), std::pair(true, false));
  try {
    taken("softplus");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("op 'softplus' is none that Kiln routes: "
                        "native_layer_norm, "),
              std::string::npos)
        << error.what();
  }
}

TEST(Torch, Environment) {
  const std::string log = testing::TempDir() + "kiln_torch.log";
  const std::string store = testing::TempDir() + "kiln_torch.db";
  std::remove(log.c_str());
  const std::pair<const char*, std::string> variables[] = {
      {"KILN_MODE", "verify"}, {"KILN_OPS", "silu"}, {"KILN_CACHE", store},
      {"KILN_LOG", log},       {"KILN_STRICT", "1"}, {"KILN_PLACE", "cpu"}};
  for (const auto& [name, value] : variables)
    setenv(name, value.c_str(), 1);
  enable();
  const auto silus = callsByKiln("silu"), gelus = callsByKiln("gelu");
  at::silu(at::randn({2, 8}));
  at::gelu(at::randn({2, 8}));
  EXPECT_EQ(callsByKiln("silu"), silus + 1);
  EXPECT_EQ(callsByKiln("gelu"), gelus);
  EXPECT_TRUE(reports("mode verify, strict, stores: " + store)) << report();
  EXPECT_TRUE(reports("0 of 1 differ")) << report();
  EXPECT_TRUE(std::filesystem::exists(store));
  std::stringstream written;
  written << std::ifstream(log).rdbuf();
  EXPECT_NE(written.str().find("silu 2x8 f32: ready"), std::string::npos) << written.str();
  for (const auto& [name, wrong] :
       {std::pair("KILN_MODE", "fast"), {"KILN_STRICT", "maybe"}, {"KILN_PLACE", "tpu"}}) {
    setenv(name, wrong, 1);
    EXPECT_THROW(Options::fromEnvironment(), Error) << name;
    unsetenv(name);
  }
  for (const auto& [name, value] : variables)
    unsetenv(name);
  EXPECT_EQ(Options::fromEnvironment().mode, Mode::use);
  EXPECT_EQ(Options::parse("mode=verify  ops=gelu,-silu").ops, "gelu,-silu");
  EXPECT_THROW(Options::parse("speed=high"), Error);
  EXPECT_THROW(Options::parse("mode"), Error);
}

TEST(Torch, AnotherLibrarysKernelIsTheFallback) {
  enable(onCpu());
  disable();
  const Tensor x = at::randn({4, 16});
  expectClose(std::get<0>(at::_fused_rms_norm(x, {16}, {}, 1e-5)), x * 2, "the other library's");
}

TEST(Torch, VerifyFindsWhatDiffersAndHowToReproduceIt) {
  Options options = strictOnCpu();
  options.mode = Mode::verify;
  enable(options);
  const Tensor x = at::randn({4, 16});
  try {
    at::_fused_rms_norm(x, {16}, {}, 1e-5);
    FAIL() << "twice the input was taken for its RMS norm";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::verification);
    const std::string text = error.what();
    EXPECT_NE(text.find("_fused_rms_norm 4x16 f32: Kiln and ATen differ: y differs by"),
              std::string::npos)
        << text;
    const std::size_t command = text.find("kernel-compile run ");
    ASSERT_NE(command, std::string::npos) << text;
    EXPECT_NE(text.find("--target=host --input "), std::string::npos) << text;
    std::istringstream words(text.substr(command + 19));
    std::string module;
    words >> module;
    EXPECT_TRUE(std::filesystem::exists(module)) << module;
  }
  EXPECT_TRUE(reports("1 of 1 differ")) << report();
}

TEST(Torch, Threads) {
  enable(onCpu());
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const Tensor x = at::randn({1 + i % 5, 8 * (1 + (t + i) % 3)});
        wrong += !at::allclose(at::silu(x), x * at::sigmoid(x), 1e-4, 1e-5);
        wrong += !at::allclose(at::softmax(x, 1).sum(1), at::ones({x.size(0)}), 1e-4, 1e-5);
        if (t == 0 && i % 8 == 0)
          i % 16 == 0 ? disable() : enable(onCpu());
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Torch, ReportWithoutCallsSaysSo) {
  disable();
  EXPECT_TRUE(reports("mode off")) << report();
  if (!torch::cuda::is_available()) {
    EXPECT_TRUE(reports("nothing is taken on a GPU: ")) << report();
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
