// kiln::compile on tensors of the CPU, whose regions the host target executes: blocks of models
// beside the functions themselves, and what is fused of them.
#include "test/torch/CompileHelpers.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/optim/adamw.h>

namespace kiln::test::capture {

namespace {

/// AlphaFold's transition: norm, four times as wide, back, residual.
struct TransitionImpl : torch::nn::Module {
  TransitionImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})))),
        up(register_module("up", torch::nn::Linear(64, 256))),
        down(register_module("down", torch::nn::Linear(256, 64))) {}
  Tensor forward(const Tensor& x) {
    return x + 0.5 * down->forward(at::relu(up->forward(norm->forward(x)) * 1.5));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Transition);

TEST(Compile, TransitionIsFusedForwardAndBackward) {
  at::manual_seed(1);
  Transition block;
  const Tensor x = numbers({3, 10, 64}).requires_grad_();
  const auto compiled = compile(block, x, onHost("transition"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[layer_norm][add, mul, relu][add, mul, add]")
      << compiled.report();
  const auto run = [&](const Tensors& t) { return Tensors{compiled(t[0])}; };
  const auto plain = [&](const Tensors& t) { return Tensors{block->forward(t[0])}; };
  expectSame(run, plain, {x}, block->parameters());
  expectSame(run, plain, {numbers({7, 64})}, block->parameters()); // another shape
  EXPECT_EQ(compiled.regions().size(), 6) << compiled.report();
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

/// AlphaFold's gated attention behind the attention itself, with a gate of its own.
TEST(Compile, SigmoidGateWaitsForTheProductsThatItIsAppliedTo) {
  at::manual_seed(2);
  torch::nn::Linear gates(48, 96), out(96, 48);
  const auto f = [&](const Tensor& x, const Tensor& o) {
    const Tensor g = at::sigmoid(gates->forward(x));
    const Tensor gated = o * g;
    return std::tuple(x + out->forward(gated), 1 - g);
  };
  const Tensor x = numbers({4, 9, 48}), o = numbers({4, 9, 96});
  const auto compiled = compile(f, {x, o}, onHost("gated"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[add, sigmoid, mul, sub][add, add]") << compiled.report();
  Tensors leaves = gates->parameters();
  for (const Tensor& one : out->parameters())
    leaves.push_back(one);
  const auto list = [](const auto& pair) { return Tensors{std::get<0>(pair), std::get<1>(pair)}; };
  expectSame([&](const Tensors& t) { return list(compiled(t[0], t[1])); },
             [&](const Tensors& t) { return list(f(t[0], t[1])); }, {x, o}, leaves);
}

/// A language model's feed-forward block.
struct FeedForwardImpl : torch::nn::Module {
  FeedForwardImpl()
      : w1(register_module("w1", without(64, 160))), w2(register_module("w2", without(160, 64))),
        w3(register_module("w3", without(64, 160))),
        scale(register_parameter("scale", at::linspace(0.5, 1.5, 64))) {}
  static torch::nn::Linear without(std::int64_t in, std::int64_t out) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = at::rms_norm(x, {64}, scale, 1e-6);
    return x + w2->forward(at::silu(w1->forward(y)) * w3->forward(y));
  }
  torch::nn::Linear w1, w2, w3;
  Tensor scale;
};
TORCH_MODULE(FeedForward);

TEST(Compile, SwigluBlockIsFusedAndCalledWithOtherShapesAndStrides) {
  at::manual_seed(3);
  FeedForward block;
  const auto compiled = compile(block, numbers({2, 12, 64}).requires_grad_(), onHost("swiglu"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[rms_norm][silu, mul]") << compiled.report();
  const auto run = [&](const Tensors& t) { return Tensors{compiled(t[0])}; };
  const auto plain = [&](const Tensors& t) { return Tensors{block->forward(t[0])}; };
  expectSame(run, plain, {numbers({2, 12, 64})}, block->parameters());
  expectSame(run, plain, {numbers({5, 64})}, block->parameters());
  expectSame(run, plain, {numbers({12, 2, 64}).transpose(0, 1)}, block->parameters());
  expectSame(run, plain, {numbers({2, 0, 64})}, block->parameters());
  EXPECT_TRUE(reports("swiglu_silu_mul"));
  EXPECT_NE(compiled.report().find("an empty tensor"), std::string::npos) << compiled.report();
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

/// Attention stays one op, which its router takes, between the kernels of what is around it.
TEST(Compile, AttentionRunsAsItIsRecorded) {
  at::manual_seed(9);
  const Tensor scale = at::linspace(0.5, 1.5, 24).requires_grad_();
  const auto f = [&](const Tensor& x) {
    const Tensor y = at::rms_norm(x, {24}, scale, 1e-6);
    const Tensor heads = y.unflatten(-1, {2, 12}).transpose(1, 2);
    const Tensor z = at::scaled_dot_product_attention(heads, heads, heads, {}, 0, true);
    return x + at::silu(z.transpose(1, 2).flatten(2)) * y;
  };
  const auto run = [&](const auto& function) {
    return [&](const Tensors& t) { return Tensors{function(t[0])}; };
  };
  const auto compiled = compile(f, numbers({2, 9, 24}).requires_grad_(), onHost("attends"));
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
  EXPECT_NE(usedOf(compiled.untyped()).find("[rms_norm]"), std::string::npos) << compiled.report();
  expectSame(run(compiled), run(f), {numbers({2, 9, 24})}, {scale});
  enable(strictOnCpu());
  const auto before = callsByKiln("scaled_dot_product_attention");
  const auto routed = compile(f, numbers({2, 9, 24}).requires_grad_(), onHost("attends_routed"));
  EXPECT_TRUE(routed.untyped().refusals().empty()) << routed.report();
  expectSame(run(routed), run(f), {numbers({2, 9, 24})}, {scale});
  expectSame(run(compiled), run(f), {numbers({2, 11, 24})}, {scale}); // recorded anew
  EXPECT_GT(callsByKiln("scaled_dot_product_attention"), before + 4);
  disable();
}

TEST(Compile, TransformerEncoderLayer) {
  at::manual_seed(4);
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(32, 4).dim_feedforward(64).dropout(0.1));
  layer->eval();
  const Tensor x = numbers({6, 2, 32}).requires_grad_();
  const auto compiled = compile(layer, x, onHost("encoder"));
  EXPECT_EQ(usedOf(compiled.untyped()),
            "[attention: bmm, softmax, bmm][add, add, layer_norm][add, relu]"
            "[add, add, layer_norm]")
      << compiled.report();
  const auto run = [&](const Tensors& t) { return Tensors{compiled(t[0])}; };
  const auto plain = [&](const Tensors& t) { return Tensors{layer->forward(t[0])}; };
  expectSame(run, plain, {x}, layer->parameters());
  layer->train(); // another kind: its dropouts draw ATen's numbers, which attention does here too
  at::manual_seed(5);
  const Tensor expected = layer->forward(x);
  at::manual_seed(5);
  expectClose(compiled(x).detach(), expected.detach(), "first call");
  at::manual_seed(5);
  expectClose(compiled(x).detach(), expected.detach(), "second call");
  EXPECT_NE(compiled.report().find("draws random numbers"), std::string::npos);
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

/// Whose results tell its training flags, and those below it.
struct FlaggedImpl : torch::nn::Module {
  struct Inner : torch::nn::Module {
    Tensor forward(const Tensor& x) { return is_training() ? x * 2 : at::relu(x) * 3; }
  };
  FlaggedImpl() : inner(register_module("inner", std::make_shared<Inner>())) {}
  Tensor forward(const Tensor& x) {
    const Tensor y = inner->forward(x);
    return is_training() ? y * 5 : y.sigmoid() * 7;
  }
  std::shared_ptr<Inner> inner;
};
TORCH_MODULE(Flagged);

void expectFlagsAreFollowed(FlaggedImpl& module, const auto& compiled, const char* how) {
  const Tensor x = numbers({4, 16});
  const auto expect = [&](const char* when) {
    for (int i = 0; i < 2; ++i)
      expectClose(compiled(x), module.forward(x), std::string(how) + " " + when);
  };
  expect("training");
  module.eval();
  expect("evaluating");
  module.inner->train();
  expect("evaluating, but for the inner one");
  module.train();
  module.inner->eval();
  expect("training, but for the inner one");
}

TEST(Compile, TrainingFlagsOfModulesAreFollowedHoweverTheyAreHeld) {
  const Tensor x = numbers({4, 16});
  const auto options = onHost("flagged");
  Flagged holder;
  expectFlagsAreFollowed(*holder, compile(holder, x, options), "ModuleHolder");
  const auto shared = std::make_shared<FlaggedImpl>();
  expectFlagsAreFollowed(*shared, compile(shared, x, options), "shared_ptr");
  FlaggedImpl local;
  expectFlagsAreFollowed(local, compile(local, x, options), "reference");
  local.train();
  expectFlagsAreFollowed(local, compile(std::ref(local), x, options), "reference_wrapper");
  local.train();
  expectFlagsAreFollowed(local, compile(&local, x, options), "pointer");
  FlaggedImpl another;
  const auto ofCopy = compile(std::move(another), x, options);
  expectClose(ofCopy(x), FlaggedImpl().forward(x), "a module that is given away");
  torch::nn::AnyModule any(shared);
  shared->train();
  const auto ofAny = compile([&](const Tensor& t) { return any.forward(t); }, x,
                             [&] {
                               auto with = options;
                               with.modules = {shared};
                               return with;
                             }());
  expectFlagsAreFollowed(*shared, ofAny, "AnyModule in a function");
}

TEST(Compile, OptimizerStepsAreSeen) {
  at::manual_seed(6);
  const auto train = [](bool isCompiled) {
    at::manual_seed(7);
    FeedForward block;
    torch::optim::AdamW optimizer(block->parameters(), torch::optim::AdamWOptions(1e-2));
    const Tensor x = numbers({8, 64}), goal = numbers({8, 64});
    const auto loss = [&](const Tensor& input, const Tensor& target) {
      return (block->forward(input) - target).square().mean(-1).sum();
    };
    const auto compiled = compile(loss, {x, goal}, onHost("loss"));
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      (isCompiled ? compiled(x, goal) : loss(x, goal)).backward();
      optimizer.step();
    }
    EXPECT_EQ(usedOf(compiled.untyped()), "[rms_norm][silu, mul][add, sub, square, mean]")
        << compiled.report();
    return block->parameters();
  };
  const Tensors ours = train(true), theirs = train(false);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-3, 1e-4))
        << (ours[i] - theirs[i]).abs().max().item<double>();
}

TEST(Compile, AutocastIsFollowed) {
  at::manual_seed(8);
  Transition block;
  const Tensor x = numbers({16, 64});
  const auto compiled = compile(block, x, onHost("cast"));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const Tensor ours = compiled(x), theirs = block->forward(x);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(ours.scalar_type(), theirs.scalar_type());
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 3e-2);
  EXPECT_GT((ours - compiled(x)).abs().max().item<double>(), 0) << "autocast did nothing";
  EXPECT_EQ(compiled.regions().size(), 6) << compiled.report();
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

TEST(Compile, TypesThatKernelsHave) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto f = [](const Tensor& x, const Tensor& y) {
      const Tensor twice = x * 2;
      return at::softmax(at::where(x > 0, twice, y).to(at::kFloat), -1).to(x.scalar_type()) + y;
    };
    const Tensor x = numbers({7, 40}).to(type), y = numbers({7, 40}).to(type);
    const auto compiled = compile(f, {x, y}, onHost("types"));
    EXPECT_EQ(usedOf(compiled.untyped()), "[mul, gt, where, to, softmax, to, add]")
        << compiled.report();
    expectClose(compiled(x, y), f(x, y), "result");
  }
}

TEST(Compile, InPlaceOnWhatIsMadeInside) {
  const auto f = [](const Tensor& x) {
    Tensor y = x * 2;
    const Tensor z = y.sigmoid() * torch::tensor({1.F, 2.F, 3.F, 4.F}).view({4, 1});
    y.add_(1).relu_();
    Tensor table = at::zeros({4, 8});
    table.select(0, 1).copy_(z.select(0, 0)); // through a view: as recorded
    return y * z + table;
  };
  const auto compiled = compile(f, at::zeros({4, 8}).requires_grad_(), onHost("in_place"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[mul, sigmoid, mul, add, relu]") << compiled.report();
  expectSame([&](const Tensors& t) { return Tensors{compiled(t[0])}; },
             [&](const Tensors& t) { return Tensors{f(t[0])}; }, {numbers({4, 8})}, {});
}

TEST(Compile, WhatNobodyNeedsIsLeftOutUnlessItDraws) {
  const auto f = [](const Tensor& x) {
    const Tensor unused = x.cumsum(1).sum(), drawn = at::bernoulli(x.sigmoid());
    return at::dropout(x, 0.5, true);
  };
  const Tensor x = numbers({4, 8});
  const auto compiled = compile(f, x, onHost("unused"));
  at::manual_seed(10);
  const Tensor expected = f(x);
  at::manual_seed(10);
  EXPECT_TRUE(at::equal(compiled(x), expected));
  EXPECT_EQ(compiled.report().find("cumsum"), std::string::npos) << compiled.report();
  EXPECT_NE(compiled.report().find("bernoulli"), std::string::npos) << compiled.report();
}

TEST(Compile, MaskedScores) {
  const Tensor mask = at::ones({6, 6}, at::kBool).triu(1);
  const auto f = [&](const Tensor& q, const Tensor& k) {
    const Tensor scores = at::matmul(q, k.transpose(-1, -2)) / 4;
    return at::softmax(scores.masked_fill(mask, -INFINITY), -1);
  };
  const Tensor q = numbers({2, 6, 16}), k = numbers({2, 6, 16});
  const auto compiled = compile(f, {q, k}, onHost("scores"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[div, masked_fill, softmax]") << compiled.report();
  expectSame([&](const Tensors& t) { return Tensors{compiled(t[0], t[1])}; },
             [&](const Tensors& t) { return Tensors{f(t[0], t[1])}; }, {q, k}, {});
}

} // namespace

} // namespace kiln::test::capture
