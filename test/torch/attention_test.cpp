// at::scaled_dot_product_attention on Kiln's kernels, of tensors on the CPU: results and gradients
// beside ATen's formula in fp64.
#include "kiln/baseline.h"
#include "test/backend/Helpers.h"
#include "test/torch/AttentionCalls.h"

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <fmt/format.h>
#include <functional>
#include <random>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class TorchAttention : public StrictOnCpu {};

/// How far from ATen's formula in fp64, beside the largest number.
void expectRight(const Arguments& given, const std::string& what) {
  const auto ours = results(given.leaves());
  const auto exact = [&] {
    const Guard off(Mode::off);
    return results(given.leaves(at::kDouble));
  }();
  const double tolerance = toleranceOf(given.q.scalar_type());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].sizes(), exact[i].sizes()) << what << ", tensor " << i;
    const double error = (ours[i].to(at::kDouble) - exact[i]).abs().max().item<double>();
    EXPECT_LE(error, 2 * tolerance * (0.1 + exact[i].abs().max().item<double>()))
        << what << ", tensor " << i;
  }
}

/// How rows lie: as ATen makes them, as [batch, rows, heads, width], in one tensor of all three,
/// and in the middle of others.
Tensor rowsOf(int kind, at::IntArrayRef sizes, at::ScalarType type) {
  const Tensor x = at::randn(sizes).to(type);
  if (kind == 1 && sizes.size() >= 3)
    return x.transpose(-3, -2).contiguous().transpose(-3, -2);
  if (kind == 2)
    return at::cat({x, x, x}, -1).narrow(-1, sizes.back(), sizes.back());
  if (kind == 3)
    return x.transpose(-2, -1).contiguous().transpose(-2, -1);
  return x;
}

TEST_F(TorchAttention, IsNearFp64) {
  std::mt19937 draw(7);
  const auto of = [&](int n) {
    return static_cast<std::int64_t>(draw() % static_cast<unsigned>(n));
  };
  const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
  for (int i = 0; i < 12; ++i) {
    const auto type = types[of(3)];
    const std::int64_t s = 1 + of(40), t = 1 + of(40), d = 1 + of(40), dv = of(2) ? d : 1 + of(40);
    const std::int64_t keyHeads = 1 + of(2), shared = 1 + of(2);
    at::DimVector leading;
    for (std::int64_t rank = of(4); rank > 1; --rank)
      leading.push_back(1 + of(3));
    const auto sizes = [&](std::int64_t heads, std::int64_t rows, std::int64_t width) {
      at::DimVector all = leading;
      if (!leading.empty())
        all.push_back(heads);
      all.append({rows, width});
      return all;
    };
    const int kind = static_cast<int>(of(4));
    Arguments all{rowsOf(kind, sizes(keyHeads * shared, s, d), type),
                  rowsOf(kind, sizes(keyHeads, t, d), type),
                  rowsOf(kind, sizes(keyHeads, t, dv), type)};
    all.shared = !leading.empty() && shared > 1;
    const auto masks = of(4);
    if (masks == 1)
      all.mask = at::randn({s, t}).to(of(2) ? type : at::kFloat);
    else if (masks == 2)
      all.mask = at::rand({s, t}) > 0.2;
    all.causal = masks == 3;
    if (all.mask && all.mask->scalar_type() == at::kBool)
      all.mask->select(1, 0).fill_(true); // each row sees a key
    if (of(2))
      all.scale = 0.3;
    expectRight(all, fmt::format("{} {} {}x{}x{}x{}, strides {}, masks {}", i, c10::toString(type),
                                 s, t, d, dv, kind, masks));
  }
}

TEST_F(TorchAttention, BiasesAreBroadcast) {
  const Tensor q = at::randn({2, 3, 9, 8}), k = at::randn({2, 3, 11, 8});
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{9, 11}, {1, 3, 9, 11}, {2, 1, 1, 11}, {2, 3, 9, 1}, {1}})
    for (const bool expanded : {false, true}) { // one kernel for all that are
      const Tensor bias = at::randn(shape);
      expectRight(
          {q, k, k, expanded ? bias.expand({2, 3, 9, 11}) : bias},
          fmt::format("bias of {} dimensions{}", shape.size(), expanded ? ", expanded" : ""));
    }
  // One for all rows of an alignment; five dimensions.
  const Tensor rows = at::randn({2, 4, 3, 9, 8});
  expectRight({rows, rows, rows, at::randn({1, 1, 3, 9, 9})}, "a bias that a batch shares");
  expectRight({rows, rows, rows, at::randn({2, 1, 3, 9, 9})}, "a bias that rows share");
}

TEST_F(TorchAttention, ARowThatSeesNothingIsZero) {
  const Tensor q = at::randn({2, 2, 7, 16}), k = at::randn({2, 2, 10, 16});
  Tensor seen = at::rand({2, 1, 7, 10}) > 0.5;
  seen.select(2, 3).fill_(false);
  seen.select(2, 4).select(2, 1).fill_(true);
  for (const Tensor& mask : {seen, at::zeros({2, 1, 7, 10}).masked_fill(~seen, -INFINITY)}) {
    const Arguments all = Arguments{q, k, k, mask}.leaves();
    const auto made = results(all);
    for (const Tensor& one : made)
      EXPECT_FALSE(one.isnan().any().item<bool>());
    EXPECT_EQ(made[0].select(2, 3).abs().max().item<float>(), 0);
    EXPECT_EQ(made[1].select(2, 3).abs().max().item<float>(), 0);
  }
}

/// What probabilities a call kept: values are the identity, so that its result is these.
Tensor probabilities(double p, std::uint64_t seed, const std::optional<Tensor>& mask = {}) {
  at::manual_seed(3);
  const Tensor q = at::randn({2, 3, 18, 8}), k = at::randn({2, 3, 21, 8});
  const Tensor v = at::eye(21).expand({2, 3, 21, 21});
  at::manual_seed(seed);
  return at::scaled_dot_product_attention(q, k, v, mask, p);
}

TEST_F(TorchAttention, DropoutFollowsTheGenerator) {
  for (const double p : {0.3, 2e-3}) {
    const Tensor whole = probabilities(0, 1), first = probabilities(p, 1),
                 other = probabilities(p, 2);
    EXPECT_TRUE(at::equal(first, probabilities(p, 1)));
    const Tensor kept = first != 0;
    const auto n = static_cast<double>(kept.numel());
    EXPECT_NEAR(kept.sum().item<double>() / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n));
    EXPECT_TRUE(at::allclose(first, whole * kept / (1 - p), 1e-5, 1e-6));
    if (p > 0.1) {
      EXPECT_FALSE(at::equal(kept, other != 0));
    }
  }
}

TEST_F(TorchAttention, GradientsHaveGradients) {
  const Tensor x = at::randn({1, 2, 5, 8}).requires_grad_();
  const auto second = [](const Tensor& in) {
    const Tensor y = at::scaled_dot_product_attention(in, in, in, {}, 0, true);
    const Tensor first = torch::autograd::grad({y.square().sum()}, {in}, {}, {}, true)[0];
    return torch::autograd::grad({first.square().sum()}, {in})[0];
  };
  const Tensor ours = second(x);
  const Guard off(Mode::off);
  at::globalContext().setSDPUseFlash(false); // whose gradient has none
  const Tensor exact = second(x.detach().to(at::kDouble).requires_grad_());
  at::globalContext().setSDPUseFlash(true);
  EXPECT_TRUE(
      at::allclose(ours.to(at::kDouble), exact, 1e-4, 1e-4 * exact.abs().max().item<double>()));
}

TEST_F(TorchAttention, IsTakenWithoutGradientsAndInInferenceMode) {
  const Tensor x = at::randn({2, 2, 12, 8});
  const auto call = [&] { return at::scaled_dot_product_attention(x, x, x); };
  const auto before = callsByKiln(kForward);
  const Tensor plain = call();
  {
    const at::NoGradGuard off;
    EXPECT_TRUE(at::equal(call(), plain));
  }
  {
    const c10::InferenceMode on;
    const Tensor own = x * 1;
    EXPECT_TRUE(at::equal(at::scaled_dot_product_attention(own, own, own), plain));
  }
  EXPECT_EQ(callsByKiln(kForward), before + 3);
}

TEST_F(TorchAttention, UnderAutocastItIsTakenInHalfPrecision) {
  const Tensor x = at::randn({2, 2, 12, 8}).requires_grad_();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor y = at::scaled_dot_product_attention(x, x, x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.grad_fn()->name(), "KilnAttentionBackward");
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {x})[0].scalar_type(), at::kFloat);
}

TEST_F(TorchAttention, WhatIsNotTakenIsATens) {
  enable(onCpu());
  const auto same = [](const Arguments& all, const char* why) {
    const auto before = callsByKiln(kForward);
    const Tensor ours = all.call();
    EXPECT_EQ(callsByKiln(kForward), before);
    EXPECT_TRUE(reports(std::string("not taken: ") + why)) << why << "\n" << report();
    const Guard off(Mode::off);
    // Products may be rounded otherwise where their operands lie otherwise.
    EXPECT_TRUE(at::allclose(ours, all.call(), 1e-6, 1e-6)) << why;
  };
  const Tensor x = at::randn({2, 2, 6, 8}), wide = at::randn({1, 1, 3, 257});
  const Tensor broad = at::randn({1, 1, 3, 136});
  same({x.to(at::kDouble), x.to(at::kDouble), x.to(at::kDouble)}, "a dtype other than fp32");
  same({wide, wide, wide}, "heads wider than 256");
  same({broad, broad, broad}, "fp32 rows wider than 128");
  same({x, x.slice(1, 0, 1), x.slice(1, 0, 1)}, "shapes that do not fit"); // broadcast
  same({x.slice(2, 0, 0), x, x}, "an empty tensor");
  const auto error = [&](const Arguments& all) -> std::string {
    try {
      all.call();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  for (const Arguments& wrong :
       {Arguments{x, x.to(at::kHalf), x}, Arguments{x, x, x, at::ones({6, 6}), true}}) {
    const std::string ours = error(wrong);
    const Guard off(Mode::off);
    EXPECT_EQ(ours, error(wrong));
    EXPECT_EQ(ours.empty(), wrong.causal); // on CPUs ATen takes both masks
  }
}

TEST_F(TorchAttention, SwitchesLeaveItToATen) {
  const Tensor x = at::randn({2, 2, 6, 8});
  const auto call = [&] { return at::scaled_dot_product_attention(x, x, x); };
  const auto before = callsByKiln(kForward);
  Options without = onCpu();
  for (const char* ops : {"-attention", "-scaled_dot_product_attention", "layer_norm"}) {
    without.ops = ops;
    const Guard guard(without);
    call();
  }
  EXPECT_EQ(callsByKiln(kForward), before);
  without.ops = "attention";
  const Guard guard(without);
  call();
  wait();
  call();
  EXPECT_GT(callsByKiln(kForward), before);
}

/// What the tuner compares with: of the op's own text, forward and derived backward.
TEST_F(TorchAttention, HasABaseline) {
  const auto time = [](const OpSpec& spec, bool backward) {
    TuningTask task{Module::fromOp(spec), {}, {2, 12, 9}, "attention"};
    task.options.backward = backward;
    task.options.readAhead = false;
    return timeATen(task, Place::cpu, 2);
  };
  OpSpec spec{"attention", {-1, 4, -1, 16}, DType::bf16};
  for (const auto& settings : std::vector<decltype(spec.settings)>{
           {{"keys", "?"}},
           {{"keys", "?"}, {"causal", "first"}, {"key_heads", "2"}},
           {{"keys", "?"}, {"bias", "shared"}, {"mask", "keys"}}}) {
    spec.settings = settings;
    const auto forward = time(spec, false), backward = time(spec, true);
    ASSERT_TRUE(forward && backward) << settings.size();
    EXPECT_EQ(forward->microseconds.size(), 2U);
    EXPECT_HAS(forward->provider, "scaled_dot_product_attention");
    EXPECT_HAS(backward->provider, "attention_backward");
  }
  spec.settings = {{"keys", "?"}, {"softcap", "3"}};
  EXPECT_FALSE(time(spec, false)); // ATen has none
}

TEST_F(TorchAttention, IsVerified) {
  Options options = strictOnCpu();
  options.mode = Mode::verify;
  enable(options);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const double p : {0.0, 0.4}) {
      Arguments all{at::randn({1, 2, 13, 16}).to(type), at::randn({1, 2, 17, 16}).to(type),
                    at::randn({1, 2, 17, 16}).to(type), at::randn({13, 17}).to(type)};
      all.p = p;
      results(all.leaves()); // an error if it differs
    }
  EXPECT_TRUE(reports("0 of 1 differ from ATen")) << report();
}

/// As one product makes them, in another's order too.
TEST_F(TorchAttention, GradientsOfPartsOfOneTensorArePartsOfOne) {
  const Tensor all = at::randn({2, 9, 3, 4, 16});
  for (const bool isTurned : {false, true}) {
    const auto part = [&](std::int64_t i) {
      const Tensor rows = all.select(2, i); // [2, 9, heads, 16]
      return (isTurned ? rows.permute({1, 2, 0, 3}) : rows.transpose(1, 2))
          .detach()
          .requires_grad_();
    };
    const Tensor q = part(0), k = part(1), v = part(2);
    const Tensor y = at::scaled_dot_product_attention(q, k, v);
    const auto found = torch::autograd::grad({y.square().sum()}, {q, k, v});
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].strides(), q.strides());
      EXPECT_TRUE(found[i].is_alias_of(found[0]));
      EXPECT_EQ(found[i].storage_offset(), i * 4 * 16);
    }
    const auto wide = [](const Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
    const Tensor q64 = wide(q), k64 = wide(k), v64 = wide(v);
    const Guard off(Mode::off);
    const Tensor exact = at::scaled_dot_product_attention(q64, k64, v64);
    const auto expected = torch::autograd::grad({exact.square().sum()}, {q64, k64, v64});
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i], 1e-4, 1e-5)) << i;
  }
}

} // namespace
