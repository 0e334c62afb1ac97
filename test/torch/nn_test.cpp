// kiln::nn beside torch's modules and formulas, on tensors of the CPU whose kernels the host target
// executes; cloning, saving, and to_kiln().
#include "test/torch/Helpers.h"

#include <kiln/nn.h>
#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

// What runtime/README.md shows.
// One kernel forward and one backward, for any number of rows; b: [width].
static const auto gate =
    kiln::fuse([](kiln::Expr x, kiln::Expr g, kiln::Expr b) { return x * kiln::sigmoid(g + b); });

// A gated feed-forward block. The residual stream and its norm are one pass each way.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : norm(register_module("norm", kiln::nn::AddRMSNorm(width))),
        ffn(register_module("ffn", kiln::nn::SwiGLU(width, 4 * width))),
        gates(register_module(
            "gates", torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))),
        bias(register_parameter("bias", torch::zeros({width}))) {}

  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& residual) {
    auto [y, sum] = norm->forward(x, residual);
    return {gate(ffn->forward(y), gates->forward(y), bias), sum};
  }

  kiln::nn::AddRMSNorm norm;
  kiln::nn::SwiGLU ffn;
  torch::nn::Linear gates;
  at::Tensor bias;
};
TORCH_MODULE(Block);

class Nn : public OnHostTarget {};

/// Gradients of a root for a fixed cotangent.
std::vector<Tensor> gradientsOf(const Tensor& root, const std::vector<Tensor>& leaves) {
  const Tensor cotangent =
      at::linspace(-1, 1, root.numel()).view(root.sizes()).to(root.scalar_type());
  return torch::autograd::grad({root}, leaves, {cotangent});
}

void expectSame(const Tensor& ours, const Tensor& theirs, const std::vector<Tensor>& ourLeaves,
                const std::vector<Tensor>& theirLeaves, const char* what) {
  expectClose(ours.detach(), theirs.detach(), what);
  const auto a = gradientsOf(ours, ourLeaves), b = gradientsOf(theirs, theirLeaves);
  for (std::size_t i = 0; i < a.size(); ++i)
    expectClose(a[i], b[i], std::string(what) + ", gradient " + std::to_string(i));
}

TEST_F(Nn, LayerNorm) {
  nn::LayerNorm ours(std::vector<std::int64_t>{3, 16}, nn::NormOptions{.eps = 1e-3});
  torch::nn::LayerNorm theirs(torch::nn::LayerNormOptions({3, 16}).eps(1e-3));
  const at::NoGradGuard off;
  theirs->weight.normal_();
  ours->use(theirs->weight, theirs->bias);
  const at::AutoGradMode on(true);
  const Tensor x = at::randn({5, 3, 16}).requires_grad_();
  expectSame(ours(x), theirs(x), {x, ours->weight, ours->bias}, {x, theirs->weight, theirs->bias},
             "layer norm");
  EXPECT_GE(callsByKiln("layer_norm"), 1U) << report();
  const Tensor half = x.detach().to(at::kBFloat16);
  EXPECT_EQ(ours(half).scalar_type(), at::kBFloat16); // beside fp32 parameters
}

TEST_F(Nn, NormsOfSums) {
  const Tensor x = at::randn({2, 4, 24}).requires_grad_(),
               r = at::randn({2, 4, 24}).requires_grad_();
  for (bool affine : {true, false}) {
    nn::AddRMSNorm rms(24, nn::NormOptions{.eps = 1e-6, .affine = affine});
    nn::AddLayerNorm layer(24, nn::NormOptions{.affine = affine});
    const auto [y, sum] = rms(x, r);
    const auto [z, sum2] = layer(x, r);
    EXPECT_TRUE(at::equal(sum, x + r));
    EXPECT_TRUE(at::equal(sum2, x + r));
    const Tensor s = x + r;
    expectSame(y + sum, s * (s.square().mean(-1, true) + 1e-6).rsqrt() + s, {x, r}, {x, r}, "rms");
    expectSame(z * sum2, at::layer_norm(s, {24}) * s, {x, r}, {x, r}, "layer norm");
    EXPECT_EQ(rms->parameters().size(), affine ? 1U : 0U);
    EXPECT_EQ(layer->parameters().size(), affine ? 2U : 0U);
  }
  nn::RMSNorm norm(24);
  expectSame(norm(x), x * (x.square().mean(-1, true) + 1e-6).rsqrt(), {x}, {x}, "rms alone");
}

/// A residual stream in fp32 beside layers in bf16, from where it begins.
TEST_F(Nn, NormsOfAStream) {
  const nn::NormOptions options{.eps = 1e-5, .dtype = at::kBFloat16};
  nn::AddRMSNorm rms(24, options);
  nn::AddLayerNorm layer(24, options);
  const Tensor begin = at::randn({4, 24}).requires_grad_();
  const Tensor added = at::randn({4, 24}).to(at::kBFloat16).requires_grad_();
  const auto [first, same] = rms(begin);
  EXPECT_TRUE(same.is_same(begin));
  EXPECT_EQ(first.scalar_type(), at::kBFloat16);
  const auto [y, sum] = layer(added, begin);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(sum, begin + added)) << "in fp32";
  const Tensor s = begin + added, formula = at::layer_norm(s, {24}).to(at::kBFloat16);
  expectClose(y.detach(), formula.detach(), "the norm of the sum");
  const auto ours = torch::autograd::grad({y.sum() + sum.square().sum()}, {added, begin});
  const auto theirs = torch::autograd::grad({formula.sum() + s.square().sum()}, {added, begin});
  EXPECT_EQ(ours[0].scalar_type(), at::kBFloat16);
  expectClose(ours[0], theirs[0], "gradient of what is added");
  EXPECT_TRUE(at::allclose(ours[1], theirs[1], 1e-2, 1e-2)); // the norm's share is in bf16
}

TEST_F(Nn, SwiGLU) {
  nn::SwiGLU block(16, 40);
  const Tensor x = at::randn({6, 16}).requires_grad_();
  const auto parameters = block->named_parameters();
  ASSERT_EQ(parameters.keys(), (std::vector<std::string>{"w1.weight", "w2.weight", "w3.weight"}));
  const Tensor formula = at::linear(at::silu(at::linear(x, parameters["w1.weight"])) *
                                        at::linear(x, parameters["w3.weight"]),
                                    parameters["w2.weight"]);
  expectSame(block(x), formula, {x, parameters["w1.weight"]}, {x, parameters["w1.weight"]},
             "swiglu");
}

TEST_F(Nn, DropoutAdd) {
  nn::DropoutAdd add(0.5);
  const Tensor y = at::ones({32, 64}).requires_grad_(), r = at::randn({32, 64}),
               b = at::randn({64}).requires_grad_();
  const Tensor z = add->forward(y, r, b);
  const Tensor kept = (z - r).detach() != 0;
  expectClose(z.detach(), (r + at::where(kept, (y + b) * 2, at::zeros_like(y))).detach(), "sum");
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.5, 0.05);
  z.sum().backward();
  EXPECT_TRUE(at::equal(y.grad(), kept.to(at::kFloat) * 2));
  expectClose(b.grad(), (kept.to(at::kFloat) * 2).sum(0), "bias gradient");
  add->eval();
  EXPECT_TRUE(at::equal(add->forward(y, r), r + y));
}

TEST_F(Nn, CrossEntropy) {
  const Tensor x = at::randn({3, 7, 20}).requires_grad_();
  const Tensor target = at::randint(20, {3, 7}, at::kLong);
  target[0][0] = -100;
  nn::CrossEntropy loss(CrossEntropyForm{.labelSmoothing = 0.1});
  const Tensor theirs =
      at::cross_entropy_loss(x.flatten(0, 1), target.flatten(), {}, at::Reduction::Mean, -100, 0.1);
  expectSame(loss(x, target), theirs, {x}, {x}, "cross-entropy");
  nn::CrossEntropy each(CrossEntropyForm{}, nn::CrossEntropyImpl::Reduction::none);
  EXPECT_EQ(each(x, target).sizes(), target.sizes());
  EXPECT_EQ(each(x.to(at::kBFloat16), target).scalar_type(), at::kFloat);
}

TEST_F(Nn, MultiheadAttention) {
  for (bool batchFirst : {false, true}) {
    torch::nn::MultiheadAttention theirs(32, 4);
    nn::MultiheadAttention ours(32, 4, nn::AttentionOptions{.batchFirst = batchFirst});
    const auto from = theirs->named_parameters();
    for (auto& item : ours->named_parameters()) {
      const at::NoGradGuard off;
      item.value().copy_(from[item.key()]); // torch's names
    }
    EXPECT_EQ(ours->parameters().size(), theirs->parameters().size());
    const Tensor x = at::randn({5, 2, 32}), key = at::randn({6, 2, 32});
    const Tensor padding = at::zeros({2, 6}, at::kBool);
    padding[1].slice(0, 4).fill_(true);
    const Tensor mask = at::randn({5, 6});
    const auto turn = [&](const Tensor& t) { return batchFirst ? t.transpose(0, 1) : t; };
    const Tensor a =
        std::get<0>(ours(turn(x), turn(key), turn(key), padding, /*needWeights=*/false, mask));
    const Tensor b = std::get<0>(theirs(x, key, key, padding, true, mask));
    expectClose(turn(a).contiguous().detach(), b.contiguous().detach(), "attention");
    const Tensor self = std::get<0>(ours(turn(x), turn(x), turn(x)));
    expectClose(turn(self).contiguous().detach(),
                std::get<0>(theirs(x, x, x)).contiguous().detach(), "self-attention");
  }
  nn::MultiheadAttention wide(32, 4, nn::AttentionOptions{.kdim = 8, .vdim = 12});
  EXPECT_EQ(std::get<0>(wide(at::randn({5, 32}), at::randn({3, 8}), at::randn({3, 12}))).sizes(),
            (at::IntArrayRef{5, 32}));
  EXPECT_THROW(nn::MultiheadAttention(30, 4), Error);
  EXPECT_THROW(wide(at::randn({5, 32}), at::randn({3, 8}), at::randn({3, 12}), Tensor(), true),
               Error);
}

/// Once by ATen, once by Kiln's kernels.
class NnRouted : public Nn, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Nn::SetUp();
    if (GetParam())
      enable(strictOnCpu());
  }
  void TearDown() override {
    EXPECT_EQ(callsByKiln("scaled_dot_product_attention") > before, GetParam()) << report();
    disable();
    Nn::TearDown();
  }
  const std::uint64_t before = callsByKiln("scaled_dot_product_attention");
};
INSTANTIATE_TEST_SUITE_P(, NnRouted, testing::Bool());

TEST_P(NnRouted, MultiheadAttentionKeepsMasksOfBools) {
  nn::MultiheadAttention attention(16, 2, nn::AttentionOptions{.batchFirst = true});
  const Tensor x = at::randn({2, 5, 16}), y = at::randn({2, 6, 16});
  const Tensor padding = at::zeros({2, 6}, at::kBool), pairs = at::randn({4, 5, 6}) > 0.5;
  padding[1].slice(0, 4).fill_(true);
  pairs.select(2, 0).fill_(false);
  const auto call = [&](const Tensor& keys, const Tensor& mask, bool causal = false) {
    return std::get<0>(attention(x, y, y, keys, false, mask, causal)).detach();
  };
  const auto added = [](const Tensor& mask) {
    return at::zeros(mask.sizes()).masked_fill(mask, -INFINITY);
  };
  const Tensor later = at::ones({5, 6}, at::kBool).triu(1);
  expectClose(call(padding, pairs), call(added(padding), added(pairs)), "bools and floats");
  expectClose(call(padding, added(pairs)), call(padding, pairs), "one of each");
  expectClose(call(padding, {}, true), call(padding, later), "causal, with a mask beside");
}

/// Written out, in fp64.
Tensor gatedByHand(const nn::GatedAttention& module, const Tensor& x, const Tensor& y,
                   const Tensor& mask, const Tensor& bias) {
  const auto heads = [&](const torch::nn::Linear& linear, const Tensor& rows) {
    return at::linear(rows, linear->weight.to(at::kDouble))
        .unflatten(-1, {module->heads, -1})
        .transpose(-3, -2);
  };
  const Tensor q = heads(module->query, x), k = heads(module->key, y), v = heads(module->value, y);
  Tensor scores = at::matmul(q, k.mT()) / std::sqrt(static_cast<double>(q.size(-1)));
  if (bias.defined())
    scores = scores + bias;
  if (mask.defined())
    scores = scores.masked_fill(~mask.unsqueeze(-2).unsqueeze(-2), -INFINITY);
  const Tensor attended = at::matmul(at::softmax(scores, -1), v).transpose(-3, -2).flatten(-2);
  const Tensor gate = at::sigmoid(
      at::linear(x, module->gate->weight.to(at::kDouble), module->gate->bias.to(at::kDouble)));
  return at::linear(gate * attended, module->output->weight.to(at::kDouble),
                    module->output->bias.to(at::kDouble));
}

TEST_P(NnRouted, GatedAttention) {
  nn::GatedAttention fresh(16, 2);
  const Tensor rows = at::randn({3, 16});
  EXPECT_EQ(fresh(rows, rows).abs().max().item<float>(), 0); // as AlphaFold begins
  EXPECT_EQ(fresh->parameters().size(), 7U);
  nn::GatedAttention module(
      16, 2, nn::GatedAttentionOptions{.keyWidth = 12, .headWidth = 4, .zeroOutput = false});
  {
    const at::NoGradGuard off;
    module->gate->weight.normal_();
    module->output->bias.normal_();
  }
  const Tensor x = at::randn({3, 5, 16}).requires_grad_(), y = at::randn({3, 6, 12}),
               bias = at::randn({1, 2, 5, 6}).requires_grad_();
  const Tensor mask = at::rand({3, 6}) > 0.3;
  mask.select(1, 0).fill_(true);
  for (const bool masked : {false, true})
    for (const bool biased : {false, true}) {
      const Tensor seen = masked ? mask : Tensor(), pairs = biased ? bias : Tensor();
      const auto inputs = [&](const Tensor& a, const Tensor& b) {
        return biased ? std::vector<Tensor>{a, b} : std::vector<Tensor>{a};
      };
      const Tensor ours = module(x, y, seen, pairs);
      const auto a = torch::autograd::grad({ours.square().sum()}, inputs(x, bias));
      const Tensor wide = x.detach().to(at::kDouble).requires_grad_(),
                   wideBias = bias.detach().to(at::kDouble).requires_grad_();
      const Guard off(Mode::off);
      const Tensor exact =
          gatedByHand(module, wide, y.to(at::kDouble), seen, biased ? wideBias : Tensor());
      expectClose(ours.detach(), exact.detach().to(at::kFloat), "gated attention");
      const auto b = torch::autograd::grad({exact.square().sum()}, inputs(wide, wideBias));
      for (std::size_t i = 0; i < a.size(); ++i)
        expectClose(a[i].contiguous(), b[i].to(at::kFloat).contiguous(), "its gradients");
    }
  EXPECT_THROW(nn::GatedAttention(15, 2), Error);
  EXPECT_THROW(module(x, at::randn({3, 6, 16})), Error);
  EXPECT_THROW(module(x, y, at::ones({3, 6})), Error);
}

TEST_F(Nn, ModulesAreCloned) {
  nn::LayerNorm norm(16);
  const auto copy = std::dynamic_pointer_cast<nn::LayerNormImpl>(norm->clone());
  const at::NoGradGuard off;
  copy->weight.fill_(3);
  EXPECT_TRUE(at::equal(norm->weight, at::ones({16})));
  EXPECT_TRUE(at::equal(copy->named_parameters()["weight"], copy->weight));
  std::ostringstream text;
  text << norm;
  EXPECT_EQ(text.str(), "kiln::nn::LayerNorm([16], eps=1e-05, affine=true, bias=true)");
}

TEST_F(Nn, WidthsAreChecked) {
  try {
    nn::LayerNorm(16)(at::randn({4, 15}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "LayerNorm: x is [4, 15]; its last dimensions must be [16]");
  }
  EXPECT_THROW(nn::CrossEntropy()(at::randn({4, 5}), at::zeros({5}, at::kLong)), Error);
}

TEST_F(Nn, ToKilnSwapsInSequentials) {
  torch::nn::Sequential model(
      torch::nn::Linear(8, 16), torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
      torch::nn::GELU(),
      torch::nn::LayerNorm(torch::nn::LayerNormOptions({16}).elementwise_affine(false)));
  const Tensor x = at::randn({6, 8});
  const auto before = model->parameters();
  const Tensor y = model->forward(x);
  EXPECT_EQ(to_kiln(*model), "1: swapped, now kiln::nn::LayerNorm with the same parameters\n"
                             "2: not swapped: one op: kiln::enable() takes it as it is\n"
                             "3: swapped, now kiln::nn::LayerNorm with the same parameters\n");
  const auto calls = callsByKiln("layer_norm");
  expectClose(model->forward(x).detach(), y.detach(), "the model");
  EXPECT_EQ(callsByKiln("layer_norm"), calls + 2);
  const auto after = model->parameters();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_TRUE(after[i].is_same(before[i])) << i;
  torch::nn::Sequential recurrent(torch::nn::Linear(8, 6),
                                  torch::nn::LSTM(torch::nn::LSTMOptions(6, 4).batch_first(true)));
  using Result = std::tuple<Tensor, std::tuple<Tensor, Tensor>>;
  const Tensor steps = at::randn({2, 3, 8}), h = std::get<0>(recurrent->forward<Result>(steps));
  const Tensor weight = recurrent->named_parameters()["1.weight_hh_l0"];
  EXPECT_EQ(to_kiln(*recurrent), "1: swapped, now kiln::nn::LSTM with the same parameters\n");
  expectClose(std::get<0>(recurrent->forward<Result>(steps)).detach(), h.detach(), "LSTM");
  EXPECT_TRUE(recurrent->named_parameters()["1.weight_hh_l0"].is_same(weight));
  torch::nn::Sequential projected(torch::nn::LSTM(torch::nn::LSTMOptions(6, 4).proj_size(2)));
  EXPECT_NE(to_kiln(*projected).find("0: not swapped: kiln::nn::LSTM has no projections"),
            std::string::npos);
  torch::nn::TransformerEncoderLayer layer(16, 2);
  EXPECT_NE(to_kiln(*layer).find("norm1: not swapped: its parent calls it"), std::string::npos);
}

TEST_F(Nn, TheBlockOfTheReadme) {
  Block block(16);
  const Tensor x = at::randn({2, 5, 16}).requires_grad_(), r = at::randn({2, 5, 16});
  const auto [y, sum] = block->forward(x, r);
  const auto p = block->named_parameters();
  const Tensor s = x + r, h = s * (s.square().mean(-1, true) + 1e-6).rsqrt() * p["norm.weight"];
  const Tensor formula =
      at::linear(at::silu(at::linear(h, p["ffn.w1.weight"])) * at::linear(h, p["ffn.w3.weight"]),
                 p["ffn.w2.weight"]) *
      at::sigmoid(at::linear(h, p["gates.weight"]) + p["bias"]);
  expectClose(sum.detach(), s.detach(), "sum");
  std::vector<Tensor> leaves = block->parameters();
  leaves.push_back(x);
  expectSame(y, formula, leaves, leaves, "block");
}

} // namespace
