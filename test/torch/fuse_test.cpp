// kiln::fuse on tensors of the CPU, whose kernels the host target executes: types, strides, sizes,
// dropout, threads, and what ATen computes.
#include "test/torch/FuseHelpers.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <thread>

namespace kiln::test::fused {

namespace {

TEST(Fuse, TypesMix) {
  const auto f = fuse([](Expr x, Expr g) { return std::array{x * g, x.to(at::kFloat), sum(x)}; },
                      onHost("mix"));
  const Tensor x = at::randn({4, 16}).to(at::kBFloat16).requires_grad_(),
               g = at::randn({16}).requires_grad_();
  const auto [y, wide, total] = f(x, g);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(wide.scalar_type(), at::kFloat);
  EXPECT_EQ(total.sizes(), (at::IntArrayRef{4, 1}));
  EXPECT_TRUE(at::equal(y, (x.to(at::kFloat) * g).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(wide, x.to(at::kFloat)));
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(g.grad().scalar_type(), at::kFloat);
  expectClose(g.grad(), x.detach().to(at::kFloat).sum(0), "dg");
  EXPECT_EQ(f(x, g)[2].scalar_type(), at::kBFloat16);
  const Tensor other = at::randn({4, 16}).to(at::kHalf);
  EXPECT_EQ(fuse([](Expr a, Expr b) { return a + b; }, onHost("promote"))(x, other).scalar_type(),
            at::kFloat);
}

TEST(Fuse, WhatAnOperandOnlyChoosesHasNoGradientOfIt) {
  const auto f =
      fuse([](Expr x, Expr y) { return std::array{abs(x), where(abs(x) > 0.3, 0.125, y)}; },
           onHost("chosen"));
  const Tensor x = at::randn({4, 16}).requires_grad_(), y = at::randn({4, 16});
  const auto [size, chosen] = f(x, y);
  EXPECT_FALSE(chosen.requires_grad());
  EXPECT_TRUE(at::equal(chosen, at::where(x.abs() > 0.3, 0.125, y)));
  size.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), x.detach().sign()));
}

TEST(Fuse, MasksAndComparisons) {
  const auto f =
      fuse([](Expr x, Expr m) { return std::array{where(m, x, 0), x > 0}; }, onHost("masked"));
  const Tensor x = at::randn({4, 16}).requires_grad_(), mask = at::randn({4, 16}) > 0;
  const auto [y, positive] = f(x, mask);
  EXPECT_TRUE(at::equal(y, at::where(mask, x, at::zeros_like(x))));
  EXPECT_TRUE(at::equal(positive, x > 0));
  EXPECT_FALSE(positive.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), mask.to(at::kFloat)));
}

/// Equal gradients are computed once; who accumulates them has memory of his own.
TEST(Fuse, EqualGradientsDoNotShareMemory) {
  const auto f = fuse([](Expr x, Expr r, Expr s) { return exp(x + r + s); }, onHost("equal"));
  const Tensor x = at::randn({4, 8}).requires_grad_(), r = at::randn({4, 8}).requires_grad_(),
               s = at::randn({1, 4, 8}).requires_grad_();
  for (const auto& [a, b] : {std::pair(x, r), std::pair(r, s)}) {
    f(a, b, at::ones({4, 8})).sum().backward();
    EXPECT_NE(a.grad().data_ptr(), b.grad().data_ptr());
    EXPECT_TRUE(at::equal(a.grad(), b.grad().view({4, 8})));
    a.mutable_grad() = b.mutable_grad() = Tensor();
  }
}

TEST(Fuse, SumsDownColumnsComeBesideWhatTheySum) {
  const auto both = fuse(
      [](Expr x, Expr scale) {
        const Expr y = x * scale;
        return std::array{y, columnSums(y)};
      },
      onHost("beside_sums"));
  const auto alone = fuse([](Expr x) { return columnSums(x); }, onHost("alone_sums"));
  const auto asFloat = fuse([](Expr x) { return sum(x).to(at::kFloat); }, onHost("float_sums"));
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = at::randn({6, 5, 24}).to(type), scale = at::randn({1, 5, 24}).to(type);
    const Tensors found = run(of(both), {x, scale});
    const Tensors expected = run(
        [](const Tensors& t) {
          const Tensor y = t[0] * t[1];
          return Tensors{y, y.sum(at::IntArrayRef{0, 1}, /*keepdim=*/true)};
        },
        {x.to(at::kDouble), scale.to(at::kDouble)});
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found[0].scalar_type(), type);
    EXPECT_EQ(found[1].scalar_type(), at::kFloat) << "not rounded to the operands' dtype";
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << i;
      const double most = expected[i].abs().max().item<double>();
      EXPECT_LE((found[i].to(at::kDouble) - expected[i]).abs().max().item<double>(),
                (i == 1 ? allowed(at::kFloat) : allowed(type)) * (1 + most))
          << i;
    }
    EXPECT_TRUE(at::allclose(alone(x).to(at::kDouble),
                             x.to(at::kDouble).sum(at::IntArrayRef{0, 1}, /*keepdim=*/true), 1e-5,
                             1e-5));
  }
  const Tensor exact = at::randn({3, 4}, at::kDouble);
  EXPECT_EQ(asFloat(exact).scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(alone(exact), exact.sum(at::IntArrayRef{0}, /*keepdim=*/true)))
      << "fp64 stays so";
  EXPECT_GE(callsByKiln("beside_sums"), 2U) << report();
  const auto shared =
      fuse([](Expr x, Expr b) { return std::array{x * b, columnSums(b)}; }, onHost("shared_sums"));
  EXPECT_THROW(shared(at::randn({4, 8}), at::randn({8})), Error);
}

TEST(Fuse, OnlyWantedGradients) {
  const auto f = fuse([](Expr x, Expr y) { return x * y; }, onHost("wanted"));
  const Tensor x = at::randn({3, 8}).requires_grad_(), y = at::randn({3, 8});
  f(x, y).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y));
  EXPECT_FALSE(f(x.detach(), y).requires_grad());
  const at::NoGradGuard off;
  EXPECT_FALSE(f(x, y).requires_grad());
}

/// A gradient that nobody gave counts as zero.
TEST(Fuse, ResultsThatAreNotUsed) {
  const auto f = fuse([](Expr x) { return std::array{exp(x), sum(x)}; }, onHost("unused"));
  const Tensor x = at::randn({3, 8}).requires_grad_();
  f(x)[1].sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
}

TEST(Fuse, DropoutDrawsTheSameInTheBackward) {
  const auto f =
      fuse([](Expr x, Expr r) { return r + dropout(x, 0.25) + dropout(x, 0.5); }, onHost("drop"));
  const Tensor x = at::ones({64, 256}).requires_grad_(), r = at::zeros({64, 256});
  at::manual_seed(7);
  const Tensor y = f(x, r);
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y)) << "dy / dx is the mask, and so is y of ones";
  EXPECT_NEAR((y == 0).to(at::kDouble).mean().item<double>(), 0.125, 0.02); // independent ones
  EXPECT_NEAR(y.mean().item<double>(), 2.0, 0.03);
  EXPECT_FALSE(at::equal(f(x, r), y));
  at::manual_seed(7);
  EXPECT_TRUE(at::equal(f(x, r), y)) << "the generator's seed decides";
}

TEST(Fuse, CrossEntropy) {
  const auto f = fuse(
      [](Expr x, Expr t) {
        return crossEntropy(x, t, {.ignoreIndex = -1, .labelSmoothing = 0.1, .zLoss = 0.01});
      },
      onHost("loss"));
  const Tensor x = at::randn({6, 50}).requires_grad_(), t = at::arange(6).unsqueeze(1) * 9 - 1;
  const Tensor wide = x.detach().to(at::kDouble).requires_grad_();
  const Tensor loss = f(x, t), theirs = f(wide, t);
  loss.sum().backward();
  theirs.sum().backward();
  expectClose(loss.detach(), theirs.detach().to(at::kFloat), "loss");
  expectClose(x.grad(), wide.grad().to(at::kFloat), "its gradient");
  const Tensor usual = at::cross_entropy_loss(wide, t.squeeze(1), {}, at::Reduction::Sum, -1, 0.1) +
                       0.01 * (at::logsumexp(wide, 1).square() * (t.squeeze(1) != -1)).sum();
  EXPECT_NEAR(theirs.sum().item<double>(), usual.item<double>(), 1e-9);
  EXPECT_TRUE(std::isnan(f(x, at::full({6, 1}, 50, at::kLong))[0].item<float>()));
}

/// Both in one kernel, as queries and keys are: beside turns of complex numbers.
TEST(Fuse, Rope) {
  const auto f =
      fuse([](Expr q, Expr k,
              Expr p) { return std::array{rope(q, p), rope(k, p, Pairs::halves, 500.0)}; },
           onHost("turn"));
  const Tensor positions = (at::arange(5, at::kInt) * 1000).view({5, 1, 1});
  const auto formula = [&](const Tensor& x, bool areHalves, double base) { // [2, 5, 3, 8] fp64
    const Tensor pairs =
        areHalves ? x.unflatten(-1, {2, 4}).transpose(-1, -2) : x.unflatten(-1, {4, 2});
    const Tensor angle = positions * at::pow(base, -at::arange(4, at::kDouble) / 4);
    const Tensor y = at::view_as_real(at::view_as_complex(pairs.contiguous()) *
                                      at::polar(at::ones_like(angle), angle));
    return (areHalves ? y.transpose(-1, -2) : y).flatten(-2);
  };
  for (at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor q = at::randn({2, 5, 3, 8}).to(type), k = at::randn({2, 5, 3, 8}).to(type);
    const Tensors ours =
        run([&](const Tensors& t) { return of(f)({t[0], t[1], positions}); }, {q, k});
    const Tensors theirs = run(
        [&](const Tensors& t) {
          return Tensors{formula(t[0], false, 1e4), formula(t[1], true, 500.0)};
        },
        {q.to(at::kDouble), k.to(at::kDouble)});
    for (std::size_t i = 0; i < theirs.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i].to(at::kDouble), theirs[i], allowed(type), allowed(type)))
          << c10::toString(type) << " " << i;
  }
  EXPECT_GE(callsByKiln("turn"), 3U) << report();
  EXPECT_EQ(errorOf([&] { f(at::randn({5, 3, 8}), at::randn({5, 3, 8}), at::randn({5, 1, 1})); }),
            "turn: rope takes rows of an even number of columns, and positions [..., 1] of dtype "
            "Long or Int that are broadcast along them; it is given tensor<?x?x8xf32> and "
            "tensor<?xf32>");
  EXPECT_EQ(errorOf([] { fuse([](Expr x, Expr p) { return rope(x, p, Pairs::halves, 0.5); }); }),
            "rope: base 0.5; give a number from 1 to 1e30");
}

TEST(Fuse, Strides) {
  const auto f = fuse([](Expr x, Expr y) { return x * y; }, onHost("strides"));
  const Tensor base = at::randn({33, 12}), x = base.slice(0, 1).t(), y = at::randn({12, 1});
  EXPECT_TRUE(at::equal(f(x, y.expand({12, 32})), x * y));
  const Tensor off = at::randn({1 + 12 * 32}).slice(0, 1).view({12, 32}); // 4 bytes from 16
  EXPECT_TRUE(at::equal(f(off, y), off * y));
}

/// Chunks of the columns of a product are read where they lie, in the backward too.
TEST(Fuse, ChunksOfColumns) {
  const auto gate = fuse([](Expr x, Expr g) { return x * gelu(g); }, onHost("chunks"));
  const auto rows =
      fuse([](Expr x, Expr g) { return std::array{rmsNorm(x, 1e-5) + softmax(g), sum(x)}; },
           onHost("chunk_rows"));
  const auto turn =
      fuse([](Expr x, Expr p) { return rope(x, p, Pairs::halves); }, onHost("chunk_rope"));
  const auto loss = fuse([](Expr x, Expr t) { return crossEntropy(x, t); }, onHost("chunk_loss"));
  const Tensor places = at::arange(15).view({15, 1}), classes = places + 1;
  const auto all = [&](const Tensor& x, const Tensor& g) {
    const Tensor flat = x.flatten(0, 1);
    const auto [r, s] = rows(x, g);
    return Tensors{gate(x, g), r, s, turn(flat, places), loss(flat, classes)};
  };
  const Tensor both = at::randn({3, 5, 32});
  const Tensors ours = run(
      [&](const Tensors& t) {
        const auto parts = t[0].chunk(2, -1);
        return all(parts[0], parts[1]);
      },
      {both});
  const Tensors theirs = run(
      [&](const Tensors& t) {
        const auto parts = t[0].chunk(2, -1);
        return all(parts[0].contiguous(), parts[1].contiguous());
      },
      {both});
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-6)) << i;
  const Tensor odd = at::randn({4, 10}), repeated = at::randn({3, 1, 8}).expand({3, 2, 8});
  EXPECT_TRUE(at::allclose(gate(odd.chunk(2, -1)[0], odd.chunk(2, -1)[1]),
                           odd.narrow(1, 0, 5) * at::gelu(odd.narrow(1, 5, 5)), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(gate(repeated, repeated), repeated * at::gelu(repeated), 1e-5, 1e-6));
}

/// Into chunks, and into what a kernel cannot write as it is.
TEST(Fuse, ResultsThatAreThere) {
  const auto f = fuse([](Expr x, Expr y) { return std::array{x + y, x - y}; }, onHost("into"));
  const Tensor x = at::randn({6, 16}).requires_grad_(), y = at::randn({6, 16});
  const Tensor* const operands[] = {&x, &y};
  for (const Tensor& place :
       {at::zeros({6, 32}), at::zeros({6, 34}).narrow(1, 1, 32), at::zeros({6, 32}, at::kDouble)}) {
    const Tensor results[] = {place.narrow(1, 16, 16), place.narrow(1, 0, 16)};
    f.untyped().callInto(operands, results);
    EXPECT_TRUE(at::equal(place.to(at::kFloat), at::cat({x - y, x + y}, 1)));
    EXPECT_FALSE(place.requires_grad());
  }
  EXPECT_GE(callsByKiln("into"), 3U) << report();
}

TEST(Fuse, EmptyTensors) {
  const auto f = fuse([](Expr x, Expr g) { return rmsNorm(x, g); }, onHost("nothing"));
  const Tensor x = at::randn({0, 8}).requires_grad_(), g = at::randn({8}).requires_grad_();
  const Tensor y = f(x, g);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{0, 8}));
  y.sum().backward();
  EXPECT_TRUE(at::equal(g.grad(), at::zeros({8})));
}

/// Rows are known at run time only: few kernels serve many shapes.
TEST(Fuse, AnyNumberOfRows) {
  const auto f = fuse([](Expr x, Expr m) { return x + m; }, onHost("any"));
  for (std::int64_t n : {2, 5, 9}) {
    const Tensor x = at::randn({n, 3, 8}), m = at::randn({3, 1});
    EXPECT_TRUE(at::equal(f(x, m), x + m)) << n;
  }
}

/// Elementwise math is compiled for rows of 1024, whatever the tensor's own width.
TEST(Fuse, FewKernelsServeManyWidths) {
  const auto f = fuse([](Expr x, Expr s) { return silu(x) * s; }, onHost("wide"));
  const Tensor s = at::full({}, 0.5).requires_grad_();
  for (const Sizes& shape : {Sizes{2, 2048}, {1024 * 3}, {8, 2, 256}}) {
    const Tensor x = at::randn(shape).requires_grad_();
    const Tensor y = f(x, s);
    expectClose(y.detach(), (at::silu(x) * s).detach(), "result");
    const Tensor ds = torch::autograd::grad({y.sum()}, {s})[0];
    EXPECT_EQ(ds.dim(), 0);
    EXPECT_NEAR(ds.item<double>(), at::silu(x).sum().item<double>(), 1e-2);
  }
  EXPECT_TRUE(reports("wide                         4x1024 f32")) << report();
  EXPECT_FALSE(reports("2x2048 f32")) << report();
}

/// The backward of a function runs in autograd's threads, and its calls in any.
TEST(Fuse, Threads) {
  const auto f = fuse([](Expr x, Expr g) { return rmsNorm(x, g); }, onHost("threads"));
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const Tensor x = at::randn({3 + i, 16 + 8 * (t % 2)}).requires_grad_(),
                     g = at::ones({x.size(1)});
        const Tensor y = x * (x.square().mean(-1, true) + 1e-6).rsqrt();
        const Tensor ours = torch::autograd::grad({f(x, g).square().sum()}, {x})[0],
                     theirs = torch::autograd::grad({y.square().sum()}, {x})[0];
        wrong += !at::allclose(f(x, g), y, 1e-5, 1e-5) || !at::allclose(ours, theirs, 1e-4, 1e-5);
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

/// Nothing is cast: what comes in bf16 is computed in fp32 anyhow.
TEST(Fuse, Autocast) {
  const auto f = fuse([](Expr x, Expr g) { return softmax(x * g); }, onHost("cast_free"));
  const Tensor x = at::randn({4, 16}), g = at::randn({16});
  const Tensor plain = f(x, g);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor under = f(x, g), half = f(x.to(at::kBFloat16), g);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_TRUE(at::equal(under, plain));
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
}

TEST(Fuse, WhatATenComputes) {
  const auto g = fuse([](Expr x) { return silu(x) * 0.1; }, {.name = "plain", .place = Place::gpu});
  const Tensor x = at::randn({3, 8});
  expectClose(g(x), at::silu(x) * 0.1, "on the CPU");
  EXPECT_TRUE(reports("tensors that are not on a GPU")) << report();
  const auto f = fuse([](Expr x) { return silu(x) * 0.1; }, onHost("double"));
  const Tensor wide = x.to(at::kDouble).requires_grad_();
  EXPECT_TRUE(at::equal(f(wide), at::silu(wide) * 0.1));
  EXPECT_TRUE(reports("by ATen: fp64")) << report();
  const Tensor once = torch::autograd::grad({f(wide).sum()}, {wide}, {}, true, true)[0];
  EXPECT_TRUE(torch::autograd::grad({once.sum()}, {wide})[0].defined()); // ATen's has one
}

TEST(Fuse, NoWaiting) {
  FuseOptions options = onHost("patient");
  options.wait = false;
  const auto f = fuse([](Expr x) { return exp(x) - 1; }, options);
  const Tensor x = at::randn({5, 11}).requires_grad_();
  const Tensor y = f(x);
  EXPECT_EQ(callsByKiln("patient"), 0U);
  wait();
  expectClose(f(x).detach(), y.detach(), "the kernel's");
  EXPECT_EQ(callsByKiln("patient"), 1U) << report();
}

/// A dropout by ATen would be another: such a function waits though it was told not to.
TEST(Fuse, WhatDrawsNumbersWaitsForItsKernel) {
  FuseOptions options = onHost("drawn_at_once");
  options.wait = false;
  const auto drop = fuse([](Expr x) { return dropout(x, 0.25); }, options);
  const Tensor x = at::ones({40, 104});
  const auto draw = [&] {
    at::manual_seed(4);
    return drop(x);
  };
  const Tensor first = draw();
  wait();
  EXPECT_TRUE(at::equal(draw(), first));
  EXPECT_NEAR((first == 0).to(at::kFloat).mean().item<double>(), 0.25, 0.03);
}

} // namespace

} // namespace kiln::test::fused
