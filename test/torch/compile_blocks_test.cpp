// Attention that is written out within other work: blocks as others write them, with dropouts,
// under autocast, beside operations in place, where all keys are hidden, and what it holds in
// memory.
#include "test/torch/CompileHelpers.h"
#include "test/torch/Peak.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <cmath>
#include <limits>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace kiln::test::capture {

namespace {

/// Kiln's kernels on the CPU, for a while.
struct Routed {
  Routed() { enable(strictOnCpu()); }
  ~Routed() { disable(); }
};

torch::nn::Linear linear(std::int64_t in, std::int64_t out, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

/// A block of a small GPT, with its mask as a buffer.
struct GptBlockImpl : torch::nn::Module {
  explicit GptBlockImpl(double p = 0)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({24})))),
        norm2(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({24})))),
        qkv(register_module("qkv", linear(24, 72, true))),
        out(register_module("out", linear(24, 24, true))),
        up(register_module("up", linear(24, 96, true))),
        down(register_module("down", linear(96, 24, true))),
        drop(register_module("drop", torch::nn::Dropout(p))),
        mask(register_buffer("mask", at::ones({16, 16}).tril().view({1, 1, 16, 16}))) {}

  Tensor attend(const Tensor& x) {
    const auto length = x.size(1);
    const auto parts = qkv->forward(x).split(24, 2);
    const auto heads = [&](const Tensor& t) {
      return t.view({x.size(0), length, 3, 8}).transpose(1, 2);
    };
    const Tensor q = heads(parts[0]), k = heads(parts[1]), v = heads(parts[2]);
    Tensor scores = at::matmul(q, k.transpose(-2, -1)) * (1 / std::sqrt(8.0));
    scores = scores.masked_fill(mask.slice(2, 0, length).slice(3, 0, length) == 0,
                                -std::numeric_limits<float>::infinity());
    const Tensor y = at::matmul(drop->forward(at::softmax(scores, -1)), v);
    return out->forward(y.transpose(1, 2).contiguous().view({x.size(0), length, 24}));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = x + attend(norm->forward(x));
    return y + down->forward(at::gelu(up->forward(norm2->forward(y))));
  }

  torch::nn::LayerNorm norm, norm2;
  torch::nn::Linear qkv, out, up, down;
  torch::nn::Dropout drop;
  Tensor mask;
};
TORCH_MODULE(GptBlock);

TEST(CompileBlocks, GptIsAsItself) {
  at::manual_seed(1);
  GptBlock block;
  const Tensor x = numbers({2, 9, 24});
  const auto run = [](const auto& f) { return [&](const Tensors& t) { return Tensors{f(t[0])}; }; };
  const auto plain = [&](const Tensor& t) { return block->forward(t); };
  const auto compiled = compile(block, x.detach().requires_grad_(), onHost("gpt"));
  EXPECT_EQ(usedOf(compiled.untyped()),
            "[attention: matmul, mul, masked_fill, softmax, matmul][layer_norm][add, add, "
            "layer_norm][add, gelu][add, add]")
      << compiled.report();
  expectSame(run(compiled), run(plain), {x}, block->parameters());
  const Routed kernels;
  const auto before = callsByKiln("scaled_dot_product_attention");
  expectSame(run(compiled), run(plain), {x}, block->parameters());
  EXPECT_GT(callsByKiln("scaled_dot_product_attention"), before);
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

/// Algorithm 7 of AlphaFold: rows of an MSA, with a mask that is added, a bias of pairs and a gate.
struct RowAttentionImpl : torch::nn::Module {
  RowAttentionImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({20})))),
        pairNorm(
            register_module("pair_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({12})))),
        q(register_module("q", linear(20, 16, false))),
        k(register_module("k", linear(20, 16, false))),
        v(register_module("v", linear(20, 16, false))),
        pairs(register_module("pairs", linear(12, 2, false))),
        gate(register_module("gate", linear(20, 16, true))),
        out(register_module("out", linear(16, 20, true))) {}

  Tensor forward(const Tensor& msa, const Tensor& pair, const Tensor& mask) {
    const Tensor m = norm->forward(msa);
    const auto heads = [](const Tensor& t) { return t.view({t.size(0), t.size(1), 2, 8}); };
    const Tensor hidden = (1e9 * (mask - 1)).unsqueeze(1).unsqueeze(1);
    const Tensor bias = pairs->forward(pairNorm->forward(pair)).permute({2, 0, 1}).unsqueeze(0);
    const Tensor scaled = heads(q->forward(m)) * (1 / std::sqrt(8.0));
    Tensor scores = at::einsum("bqhc,bkhc->bhqk", {scaled, heads(k->forward(m))}) + hidden;
    scores += bias;
    const Tensor y = at::einsum("bhqk,bkhc->bqhc", {at::softmax(scores, -1), heads(v->forward(m))});
    const Tensor gated = y * heads(at::sigmoid(gate->forward(m)));
    return msa + out->forward(gated.reshape({msa.size(0), msa.size(1), 16}));
  }

  torch::nn::LayerNorm norm, pairNorm;
  torch::nn::Linear q, k, v, pairs, gate, out;
};
TORCH_MODULE(RowAttention);

TEST(CompileBlocks, RowAttentionWithPairBiasIsAsItself) {
  at::manual_seed(2);
  RowAttention block;
  const Tensor msa = numbers({3, 7, 20}), pair = numbers({7, 7, 12});
  Tensor mask = (at::rand({3, 7}) > 0.3).to(at::kFloat);
  mask.select(1, 0).fill_(1);
  const auto with = [&](const auto& f) {
    return [&](const Tensors& t) { return Tensors{f(t[0], t[1], mask)}; };
  };
  const auto plain = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return block->forward(a, b, c);
  };
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto compiled = compile(block, {leaf(msa), leaf(pair), mask}, onHost("rows"));
  EXPECT_EQ(attentionsOf(compiled.untyped()), 1) << compiled.report();
  EXPECT_NE(usedOf(compiled.untyped()).find("attention: mul, einsum, add, add, softmax, einsum]"),
            std::string::npos)
      << compiled.report();
  EXPECT_NE(usedOf(compiled.untyped()).find("sigmoid]"), std::string::npos) << compiled.report();
  expectSame(with(compiled), with(plain), {msa, pair}, block->parameters());
  const Routed kernels;
  expectSame(with(compiled), with(plain), {msa, pair}, block->parameters());
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
}

/// Values that are the unit matrix show the probabilities themselves.
void expectDropped(double p) {
  at::manual_seed(3);
  const auto f = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor all = at::softmax(at::matmul(q, k.transpose(1, 2)), -1);
    return at::matmul(at::dropout(all, p, true), v);
  };
  const Tensor q = numbers({4, 50, 16}).requires_grad_(), k = numbers({4, 40, 16}),
               unit = at::eye(40).expand({4, 40, 40});
  const auto compiled = compile(f, {q, k, unit}, onHost("dropped"));
  EXPECT_EQ(usedOf(compiled.untyped()), "[attention: matmul, softmax, dropout, matmul]")
      << compiled.report();
  at::manual_seed(4);
  const Tensor y = compiled(q, k, unit);
  const Tensor plain = at::softmax(at::matmul(q, k.transpose(1, 2)), -1) / (1 - p), kept = y != 0;
  EXPECT_NEAR(1 - kept.to(at::kFloat).mean().item<double>(), p, 0.02);
  expectClose(y, at::where(kept, plain, at::zeros_like(plain)), "what is kept");
  const Tensor dy = numbers({4, 50, 40});
  expectClose(torch::autograd::grad({y}, {q}, {dy})[0],
              torch::autograd::grad({at::where(kept, plain, 0)}, {q}, {dy})[0], "gradient");
  at::manual_seed(4);
  EXPECT_TRUE(at::equal(compiled(q, k, unit), y)) << "not repeatable";
  EXPECT_FALSE(at::equal(compiled(q, k, unit), y)) << "drawn once";
}

TEST(CompileBlocks, DropoutOfProbabilities) {
  expectDropped(0.25);
  const Routed kernels;
  const auto before = callsByKiln("scaled_dot_product_attention");
  expectDropped(0.25);
  EXPECT_GT(callsByKiln("scaled_dot_product_attention"), before);
}

/// What is compared when it is captured holds whatever is drawn.
TEST(CompileBlocks, BlocksWithDropoutsAreTrained) {
  at::manual_seed(5);
  GptBlock block(0.1);
  const Tensor x = numbers({2, 9, 24});
  const Routed kernels;
  const auto compiled = compile(block, x, onHost("trained"));
  EXPECT_EQ(attentionsOf(compiled.untyped()), 1) << compiled.report();
  EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
  block->eval();
  expectClose(compiled(x), block->forward(x), "evaluating");
  EXPECT_EQ(attentionsOf(compiled.untyped()), 2) << compiled.report();
}

/// Scores are softmaxed in fp32, as products in less ask for.
TEST(CompileBlocks, TypesAndAutocast) {
  at::manual_seed(6);
  const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    const Tensor scores = at::matmul(q, k.transpose(-2, -1)) / 4 + b;
    return at::matmul(at::softmax(scores.to(at::kFloat), -1).to(v.scalar_type()), v);
  };
  Tensors given{numbers({2, 3, 6, 16}), numbers({2, 3, 8, 16}), numbers({2, 3, 8, 16}),
                numbers({3, 6, 8})};
  const auto expectNear = [&](const auto& compiled, double tolerance) {
    const auto wide = [](const Tensor& t) { return t.to(at::kDouble); };
    const Tensor ours = compiled(given[0], given[1], given[2], given[3]);
    const Guard off(Mode::off);
    const Tensor scores = at::matmul(wide(given[0]), wide(given[1]).transpose(-2, -1)) / 4;
    const Tensor exact = at::matmul(at::softmax(scores + wide(given[3]), -1), wide(given[2]));
    EXPECT_LT((wide(ours) - exact).abs().max().item().toDouble(), tolerance);
    EXPECT_EQ(attentionsOf(compiled.untyped()), 1) << compiled.report();
    EXPECT_TRUE(compiled.untyped().refusals().empty()) << compiled.report();
    return ours.scalar_type();
  };
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  EXPECT_EQ(expectNear(fuse(f, onHost("cast")), 3e-2), at::kBFloat16);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  for (Tensor& one : given)
    one = one.to(at::kBFloat16);
  EXPECT_EQ(expectNear(fuse(f, onHost("bf16")), 3e-2), at::kBFloat16);
  const Routed kernels;
  EXPECT_EQ(expectNear(fuse(f, onHost("bf16_routed")), 3e-2), at::kBFloat16);
}

TEST(CompileBlocks, OperationsInPlaceLeaveItAlone) {
  at::manual_seed(7);
  const auto f = [](const Tensor& x, const Tensor& v, const Tensor& gate) {
    Tensor q = x * 1, y = at::matmul(at::softmax(at::matmul(q, v.transpose(1, 2)), -1), v);
    y.mul_(gate.sigmoid());
    return y;
  };
  const Tensor x = numbers({2, 5, 8}), v = numbers({2, 7, 8}), gate = numbers({2, 5, 8});
  const auto run = [](const auto& g) {
    return [&](const Tensors& t) { return Tensors{g(t[0], t[1], t[2])}; };
  };
  const auto compiled = fuse(f, onHost("result"));
  expectSame(run(compiled), run(f), {x, v, gate}, {});
  EXPECT_EQ(attentionsOf(compiled.untyped()), 1) << compiled.report();
  const at::NoGradGuard off; // whoever wants gradients may not write into a query
  for (const bool throughView : {false, true}) {
    const auto overwrites = [&](const Tensor& a, const Tensor& b) {
      Tensor q = a * 1;
      const Tensor scores = at::matmul(q, b.transpose(1, 2));
      if (throughView)
        q.select(1, 0).mul_(2);
      else
        q.mul_(2);
      return at::matmul(at::softmax(scores, -1), b) + q;
    };
    const auto written = compile(overwrites, {x, v.narrow(1, 0, 5)}, onHost("query"));
    expectClose(written(x, v.narrow(1, 0, 5)), overwrites(x, v.narrow(1, 0, 5)), "overwritten");
    EXPECT_EQ(attentionsOf(written.untyped()), throughView ? 0 : 1) << written.report();
    EXPECT_TRUE(written.untyped().refusals().empty()) << written.report();
  }
}

/// By a number, all probabilities are the same then; by -inf the formula gives NaN, attention
/// zeros.
TEST(CompileBlocks, QueriesThatSeeNoKey) {
  at::manual_seed(8);
  Tensor hidden = at::rand({2, 1, 5, 7}) > 0.6;
  hidden.select(2, 3).fill_(true);
  hidden.select(0, 1).fill_(true);
  const Tensor q = numbers({2, 3, 5, 8}), k = numbers({2, 3, 7, 8}), v = numbers({2, 3, 7, 4});
  const auto with = [&](double fill) {
    return [=](const Tensor& a, const Tensor& b, const Tensor& c) {
      const Tensor scores = at::matmul(a, b.transpose(-2, -1)).masked_fill(hidden, fill);
      return at::matmul(at::softmax(scores, -1), c);
    };
  };
  const auto list = [](const auto& f) {
    return [f](const Tensors& t) { return Tensors{f(t[0], t[1], t[2])}; };
  };
  for (const double fill : {-1e9, static_cast<double>(std::numeric_limits<float>::lowest())}) {
    const auto finite = fuse(with(fill), onHost("finite"));
    expectSame(list(finite), list(with(fill)), {q, k, v}, {});
    EXPECT_EQ(attentionsOf(finite.untyped()), 1) << finite.report();
    const Routed kernels;
    expectSame(list(finite), list(with(fill)), {q, k, v}, {});
  }
  const auto infinite = with(-std::numeric_limits<double>::infinity());
  const auto compiled = fuse(infinite, onHost("infinite"));
  const Tensor expected = infinite(q, k, v), ours = compiled(q, k, v);
  EXPECT_EQ(attentionsOf(compiled.untyped()), 1) << compiled.report();
  EXPECT_TRUE(expected.isnan().any().item<bool>());
  EXPECT_TRUE(at::allclose(ours, expected.nan_to_num(0), 1e-5, 1e-6));
}

/// What a step holds at most, with its backward.
std::size_t peakOf(const auto& f, const Tensors& given) {
  const Peak peak;
  const Tensor y = f(given[0], given[1], given[2], given[3]);
  torch::autograd::grad({y}, given, {at::ones_like(y)});
  return peak.most;
}

TEST(CompileBlocks, ItHoldsNoMoreThanTheFormula) {
  at::manual_seed(9);
  const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    return at::matmul(at::softmax(at::matmul(q, k.transpose(-2, -1)) * 0.25 + b, -1), v);
  };
  const auto withoutBias = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    return at::matmul(at::softmax(at::matmul(q, k.transpose(-2, -1)) * 0.25, -1), v) * b;
  };
  const auto leaf = [](at::IntArrayRef sizes) { return numbers(sizes).requires_grad_(); };
  const Tensors given{leaf({2, 4, 256, 16}), leaf({2, 4, 256, 16}), leaf({2, 4, 256, 16}),
                      leaf({4, 256, 256})},
      plain{given[0], given[1], given[2], leaf({4, 256, 16})};
  CaptureOptions options; // without kernels
  const auto biased = compile(f, {given[0], given[1], given[2], given[3]}, options);
  const auto unbiased = compile(withoutBias, {plain[0], plain[1], plain[2], plain[3]}, options);
  EXPECT_EQ(attentionsOf(biased.untyped()), 1) << biased.report();
  EXPECT_EQ(attentionsOf(unbiased.untyped()), 1) << unbiased.report();
  EXPECT_LE(peakOf(biased, given), peakOf(f, given));
  EXPECT_LE(4 * peakOf(unbiased, plain), peakOf(withoutBias, plain));
}

/// One head alone, [rows, width].
TEST(CompileBlocks, MatricesAlone) {
  at::manual_seed(11);
  const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    const Tensor scores = at::addmm(b, q, k.t(), 1, 0.5);
    return at::mm(at::softmax(scores, -1), v);
  };
  const auto list = [](const auto& g) {
    return [&](const Tensors& t) { return Tensors{g(t[0], t[1], t[2], t[3])}; };
  };
  const auto fused = fuse(f, onHost("matrices"));
  expectSame(list(fused), list(f),
             {numbers({5, 8}), numbers({7, 8}), numbers({7, 6}), numbers({5, 7})}, {});
  EXPECT_EQ(usedOf(fused.untyped()), "[attention: addmm, softmax, mm]") << fused.report();
}

/// kiln::fuse of tensors: rows before and behind attention are kernels.
TEST(CompileBlocks, FuseTakesFunctionsOfTensors) {
  at::manual_seed(10);
  const auto f = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                    const Tensor& gate) {
    const Tensor query = at::rms_norm(q, {8}), key = at::rms_norm(k, {8});
    const Tensor scores = at::matmul(query, key.transpose(-2, -1)) + bias;
    return std::tuple(at::matmul(at::softmax(scores, -1), v) * at::sigmoid(gate + 1), key);
  };
  const auto fused = fuse(f, onHost("rows_around"));
  const auto list = [](const auto& pair) { return Tensors{std::get<0>(pair), std::get<1>(pair)}; };
  expectSame([&](const Tensors& t) { return list(fused(t[0], t[1], t[2], t[3], t[4])); },
             [&](const Tensors& t) { return list(f(t[0], t[1], t[2], t[3], t[4])); },
             {numbers({2, 5, 8}), numbers({2, 7, 8}), numbers({2, 7, 6}), numbers({5, 7}),
              numbers({2, 5, 6})},
             {});
  EXPECT_EQ(usedOf(fused.untyped()),
            "[attention: matmul, add, softmax, matmul][rms_norm][rms_norm][add, sigmoid, mul]")
      << fused.report();
}

} // namespace

} // namespace kiln::test::capture
