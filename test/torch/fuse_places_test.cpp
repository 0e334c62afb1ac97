// kiln::fuse where operands and results lie: blocks of rows within wider tensors, and results that
// are written over what they come from.
#include "test/torch/FuseHelpers.h"

#include <ATen/record_function.h>

#include <random>

namespace kiln::test::fused {

namespace {

/// Copies of tensors while it lives.
class Copies {
 public:
  Copies() : handle((count = 0, at::addGlobalCallback(at::RecordFunctionCallback(&see)))) {}
  ~Copies() { at::removeCallback(handle); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  static inline std::atomic<int> count = 0;

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
    count += std::string_view(call.name()) == "aten::copy_";
    return nullptr;
  }
  at::CallbackHandle handle;
};

/// [tokens, 3 heads size], of which queries and keys are two parts, [tokens, heads, size].
struct Parts {
  Tensor all;
  std::int64_t heads;

  Tensor part(std::int64_t i) const {
    return all.chunk(3, 1)[std::size_t(i)].unflatten(1, {heads, -1});
  }
};

const auto& turn() {
  static const auto f =
      fuse([](Expr q, Expr k,
              Expr positions) { return std::array{rope(q, positions), rope(k, positions)}; },
           onHost("turn_parts"));
  return f;
}

void expectTurned(const Parts& parts, const Tensor& positions) {
  const Tensor before = parts.all.clone(), q = parts.part(0), k = parts.part(1);
  const auto [turnedQ, turnedK] = turn()(q.contiguous(), k.contiguous(), positions);
  const auto [readQ, readK] = turn()(q, k, positions);
  EXPECT_TRUE(at::equal(readQ, turnedQ) && at::equal(readK, turnedK));
  EXPECT_TRUE(at::equal(parts.all, before));
  const Tensor* const operands[] = {&q, &k, &positions};
  const Tensor results[] = {q, k};
  turn().untyped().callInto(operands, results);
  EXPECT_TRUE(at::equal(q, turnedQ) && at::equal(k, turnedK)) << q.sizes();
  EXPECT_TRUE(at::equal(parts.part(2), Parts{before, parts.heads}.part(2))) << "the third part";
  const Tensor back = -positions;
  const Tensor* const turnedBack[] = {&q, &k, &back};
  turn().untyped().callInto(turnedBack, results);
  EXPECT_TRUE(at::allclose(parts.all.to(at::kFloat), before.to(at::kFloat), 2e-2, 2e-2));
}

TEST(FusePlaces, HeadsOfTokensAreTurnedWhereTheyLie) {
  at::manual_seed(1);
  std::mt19937 random(1);
  const auto draw = [&](std::initializer_list<std::int64_t> from) {
    return from.begin()[random() % from.size()];
  };
  for (int i = 0; i < 12; ++i) {
    const std::int64_t tokens = draw({1, 2, 7, 33}), heads = draw({1, 2, 3, 8}),
                       size = draw({2, 6, 8, 16, 40, 64});
    const Tensor positions = at::randint(100, {tokens, 1, 1}, at::kInt);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      expectTurned({at::randn({tokens, 3 * heads * size}).to(type), heads}, positions);
  }
}

/// Parts as a projection makes them are neither copied nor put together.
TEST(FusePlaces, NothingIsCopiedOnTheWay) {
  const Parts parts{at::randn({6, 3 * 4 * 16}).to(at::kBFloat16), 4};
  const Tensor q = parts.part(0), k = parts.part(1),
               positions = at::arange(6, at::kInt).view({6, 1, 1});
  const Tensor* const operands[] = {&q, &k, &positions};
  const Tensor results[] = {q, k};
  turn().untyped().callInto(operands, results); // compiled
  const Copies copies;
  turn().untyped().callInto(operands, results);
  EXPECT_EQ(copies.count, 0);
  EXPECT_GE(callsByKiln("turn_parts"), 2U) << report();
}

/// Gradients through heads of tokens, beside numbers that a token or a head's columns have.
TEST(FusePlaces, GradientsOfHeadsOfTokens) {
  const auto gate =
      fuse([](Expr x, Expr g, Expr scale,
              Expr bias) { return std::array{x * sigmoid(g + bias) * scale, softmax(x) * scale}; },
           onHost("gate_heads"));
  const Tensor scale = at::randn({5, 1, 1});
  const auto runOn = [&](bool contiguous, const Tensors& values) {
    return run(
        [&](const Tensors& t) {
          const Parts parts{t[0], 4};
          const Tensor x = parts.part(0), g = parts.part(2);
          const auto [y, z] = contiguous ? gate(x.contiguous(), g.contiguous(), scale, t[1])
                                         : gate(x, g, scale, t[1]);
          return Tensors{y, z, turn()(x, g, t[2])[1]};
        },
        values);
  };
  const Tensors values = {at::randn({5, 3 * 4 * 16}), at::randn({16}),
                          at::arange(5, at::kInt).view({5, 1, 1})};
  const Tensors ours = runOn(false, values), theirs = runOn(true, values);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-6)) << i;
}

/// Of what each token has, or each batch: sums along its heads, and along the columns.
TEST(FusePlaces, GradientsOfWhatTokensHave) {
  const auto f = fuse([](Expr x, Expr scale,
                         Expr shift) { return std::array{softmax(x) * scale + shift, x * shift}; },
                      onHost("of_tokens"));
  for (const auto& sizes : {Sizes{5, 3, 16}, {2, 5, 3, 8}, {4, 1, 6, 10}}) {
    Sizes ofToken = sizes, ofColumns = sizes;
    ofToken[sizes.size() - 2] = ofToken.back() = 1;
    ofColumns[sizes.size() - 2] = 1;
    const Tensors values = {at::randn(sizes), at::randn(ofToken), at::randn(ofColumns)};
    const Tensors ours = run(
        [&](const Tensors& t) {
          const auto [y, z] = f(t[0], t[1], t[2]);
          return Tensors{y, z};
        },
        values);
    const Tensors theirs = run(
        [](const Tensors& t) { return Tensors{at::softmax(t[0], -1) * t[1] + t[2], t[0] * t[2]}; },
        values);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, 1e-5)) << i << " of " << values[0].sizes();
  }
}

/// Chunks of any number of rows, and of any number of tokens, are one kernel's.
TEST(FusePlaces, FewKernelsServeManyTokens) {
  const auto f = fuse([](Expr x, Expr y) { return x * y; }, onHost("chunks_of_any"));
  const auto scaled = fuse([](Expr x, Expr s) { return x * s; }, onHost("heads_of_any"));
  for (const std::int64_t tokens : {17, 19, 21, 30}) {
    const Parts parts{at::randn({tokens, 3 * 2 * 8}), 2};
    const auto chunks = parts.all.chunk(3, 1);
    EXPECT_TRUE(at::equal(f(chunks[0], chunks[1]), chunks[0] * chunks[1]));
    const Tensor each = at::randn({tokens, 1, 1});
    EXPECT_TRUE(at::equal(scaled(parts.part(1), each), parts.part(1) * each));
  }
  for (const char* name : {"\nchunks_of_any ", "\nheads_of_any "}) {
    const std::string all = report();
    const std::size_t first = all.find(name);
    ASSERT_NE(first, std::string::npos) << all;
    EXPECT_EQ(all.find(name, first + 1), std::string::npos) << all;
  }
}

/// Elementwise math is written over its operands, one over the other's too.
TEST(FusePlaces, ElementsAreWrittenOverThemselves) {
  const auto f = fuse([](Expr x, Expr y) { return std::array{x + 2 * y, x - y}; }, onHost("over"));
  for (const std::int64_t width : {16, 7, 1024}) {
    const Tensor x = at::randn({5, width}), y = at::randn({5, width});
    const Tensor sum = x + 2 * y, difference = x - y;
    const Tensor* const operands[] = {&x, &y};
    const Tensor crossed[] = {y, x};
    f.untyped().callInto(operands, crossed);
    EXPECT_TRUE(at::allclose(y, sum) && at::allclose(x, difference)) << width;
  }
}

/// Results that meet operands otherwise have memory of their own until all is read.
TEST(FusePlaces, WhatIsReadElsewhereIsNotWrittenOver) {
  const auto softer = fuse([](Expr x) { return softmax(x); }, onHost("softer"));
  const auto halves =
      fuse([](Expr x, Expr p) { return rope(x, p, Pairs::halves); }, onHost("halves_over"));
  const auto twice = fuse([](Expr x) { return 2 * x; }, onHost("shifted"));
  const Tensor x = at::randn({6, 64}), given = x.clone();
  const Tensor* const own[] = {&x};
  softer.untyped().callInto(own, std::array{x});
  EXPECT_TRUE(at::allclose(x, at::softmax(given, -1), 1e-5, 1e-6));
  const Tensor y = given.clone(), positions = at::arange(6).view({6, 1});
  const Tensor expected = halves(given, positions);
  const Tensor* const pairs[] = {&y, &positions};
  halves.untyped().callInto(pairs, std::array{y});
  EXPECT_TRUE(at::equal(y, expected));
  const Tensor memory = at::randn({6 * 64 + 64}), before = memory.clone();
  const Tensor from = memory.narrow(0, 0, 6 * 64).view({6, 64}),
               to = memory.narrow(0, 64, 6 * 64).view({6, 64});
  const Tensor* const shifted[] = {&from};
  twice.untyped().callInto(shifted, std::array{to});
  EXPECT_TRUE(at::equal(to.flatten(), 2 * before.narrow(0, 0, 6 * 64)));
}

} // namespace

} // namespace kiln::test::fused
