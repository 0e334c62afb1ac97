// How routing is switched, what it refuses and what it says: on tensors of the CPU.
#include "test/torch/Helpers.h"

#include <ATen/ThreadLocalState.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/library.h>

#include <cstdlib>
#include <fstream>
#include <memory>
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
      {"rows wider than 262144", [&] { return at::softmax(at::ones({1, maxRowWidth + 1}), 1); }},
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
  for (int width : {40, 41, 42, 43}) // made first, so that the next is not there before it is used
    at::softmax(at::randn({3, width}), 1);
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

/// Which scope counts now, by the policy of an op list each.
struct Scopes {
  const Tensor x = at::randn({4, 16});
  bool isOn() const {
    const auto before = callsByKiln("silu");
    at::silu(x);
    return callsByKiln("silu") > before;
  }
  static std::unique_ptr<Guard> on() { return std::make_unique<Guard>(strictOnCpu()); }
  static std::unique_ptr<Guard> off() { return std::make_unique<Guard>(Mode::off); }
};

TEST(Torch, GuardsMayEndInAnyOrder) {
  enable(strictOnCpu());
  disable();
  const Scopes scopes;
  EXPECT_FALSE(scopes.isOn());
  auto first = Scopes::on(), second = Scopes::off(), third = Scopes::on();
  EXPECT_TRUE(scopes.isOn());
  second.reset(); // from the middle
  EXPECT_TRUE(scopes.isOn());
  third.reset();
  EXPECT_TRUE(scopes.isOn()) << "the first counts again";
  second = Scopes::off();
  first.reset(); // the outer one
  EXPECT_FALSE(scopes.isOn());
  second.reset();
  EXPECT_FALSE(scopes.isOn()) << "nothing is left of them";
  enable(strictOnCpu());
  EXPECT_TRUE(scopes.isOn());
  auto one = Scopes::off();
  for (int i = 0; i < 5; ++i)
    one = Scopes::off(); // begins before the other ends
  EXPECT_FALSE(scopes.isOn());
  one.reset();
  EXPECT_TRUE(scopes.isOn());
}

TEST(Torch, GuardsMayEndOnAnotherThread) {
  enable(strictOnCpu());
  const Scopes scopes;
  auto outer = Scopes::on(), inner = Scopes::off();
  std::thread([&] {
    inner.reset();
    EXPECT_TRUE(scopes.isOn()); // which had none
  }).join();
  EXPECT_TRUE(scopes.isOn());
  outer.reset();
  auto off = Scopes::off();
  std::thread([&, on = Scopes::on()]() mutable {
    on.reset();
    off.reset();
  }).join();
  EXPECT_TRUE(scopes.isOn());
  {
    const Guard last(Mode::off);
  }
  EXPECT_TRUE(scopes.isOn());
  EXPECT_EQ(c10::ThreadLocalDebugInfo::current(), nullptr) << "something was left behind";
}

TEST(Torch, GuardsLeaveDebugInformationOfOthersAlone) {
  enable(strictOnCpu());
  const Scopes scopes;
  auto off = Scopes::off();
  {
    const c10::DebugInfoGuard others(c10::DebugInfoKind::TEST_INFO,
                                     std::make_shared<c10::DebugInfoBase>());
    off.reset();
    EXPECT_TRUE(scopes.isOn());
    EXPECT_NE(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO), nullptr);
  }
  EXPECT_TRUE(scopes.isOn());
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
  for (const auto& [name, wrong] : {std::pair("KILN_MODE", "fast"),
                                    {"KILN_STRICT", "maybe"},
                                    {"KILN_PLACE", "tpu"},
                                    {"KILN_FORMULA_BYTES", "-1"}}) {
    setenv(name, wrong, 1);
    EXPECT_THROW(Options::fromEnvironment(), Error) << name;
    unsetenv(name);
  }
  for (const auto& [name, value] : variables)
    unsetenv(name);
  EXPECT_EQ(Options::fromEnvironment().mode, Mode::use);
  EXPECT_EQ(Options::parse("mode=verify  ops=gelu,-silu").ops, "gelu,-silu");
  EXPECT_EQ(Options::parse("formula_bytes=4096").formulaBytes, 4096);
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
  if (!at::hasCUDA()) {
    EXPECT_TRUE(reports("nothing is taken on a GPU: ")) << report();
  }
}

} // namespace
