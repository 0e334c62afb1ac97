// Programs over lists of tensors on the host target: AdamW over several steps in place, with and
// without clipping, against the formula in fp64; lengths, alignments and counts of every kind.
#include "test/numerics/Lists.h"
#include "test/numerics/Values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

using namespace kiln;
using kiln::test::fromBf16;
using kiln::test::kOdd;
using kiln::test::Lengths;
using kiln::test::List;

namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8, kDecay = 0.1, kEmaDecay = 0.99;

/// The update of bf16 gradients, whose norm over all tensors is clipped to %max_norm.
constexpr const char* kClipped = R"(
func.func @clipped(%p: tensor<?xf32> {kiln.list}, %g: tensor<?xbf16> {kiln.list},
    %m: tensor<?xf32> {kiln.list}, %v: tensor<?xf32> {kiln.list}, %ema: tensor<?xf32> {kiln.list},
    %lr: tensor<f32>, %step: tensor<f32>, %scale: tensor<f32>, %max_norm: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list},
        tensor<?xbf16> {kiln.list}, tensor<?xf32> {kiln.list}, tensor<f32>) {
  %gf = arith.extf %g : tensor<?xbf16> to tensor<?xf32>
  %square = arith.mulf %gf, %gf : tensor<?xf32>
  %sum = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %root = math.sqrt %sum : tensor<f32>
  %norm = arith.mulf %root, %scale : tensor<f32>
  %tiny = arith.constant dense<1.0e-6> : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %above = arith.addf %norm, %tiny : tensor<f32>
  %ratio = arith.divf %max_norm, %above : tensor<f32>
  %clip = arith.minimumf %ratio, %one : tensor<f32>
  %factor = arith.mulf %clip, %scale : tensor<f32>
  %p1, %m1, %v1, %copy, %ema1 = kiln.adamw %p, %g, %m, %v, %lr, %step, %factor, %ema
      {beta2 = 0.95, weight_decay = 0.1, ema_decay = 0.99}
      : (tensor<?xf32>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>, tensor<?xf32>)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xbf16>, tensor<?xf32>)
  return %p1, %m1, %v1, %copy, %ema1, %norm : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>,
      tensor<?xbf16>, tensor<?xf32>, tensor<f32>
})";

/// The plain update of fp32 gradients.
constexpr const char* kPlain = R"(
func.func @adamw(%p: tensor<?xf32> {kiln.list}, %g: tensor<?xf32> {kiln.list},
    %m: tensor<?xf32> {kiln.list}, %v: tensor<?xf32> {kiln.list},
    %lr: tensor<f32>, %step: tensor<f32>, %scale: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}) {
  %p1, %m1, %v1 = kiln.adamw %p, %g, %m, %v, %lr, %step, %scale {beta2 = 0.95, weight_decay = 0.1}
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %p1, %m1, %v1 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
})";

Program compiled(const char* text) {
  CompileOptions options;
  options.until = Stage::cuda;
  return Program::compile(Module::parse(text), options);
}

std::uint16_t toBf16(float value) { // towards zero
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

/// State of the optimizer in fp64, one number an element of all tensors.
struct Exact {
  std::vector<double> p, m, v, ema;

  /// Returns how large the terms are whose sums the new parameter and average are.
  std::pair<double, double> step(std::size_t i, double g, double lr, double t) {
    const double terms = std::abs(m[i]) + std::abs(g), before = std::abs(p[i]);
    m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
    v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
    double denominator = std::sqrt(v[i]) / std::sqrt(1 - std::pow(kBeta2, t)) + kEps;
    double rate = lr / (1 - std::pow(kBeta1, t)) / denominator;
    p[i] = p[i] * (1 - lr * kDecay) - rate * m[i];
    ema[i] = kEmaDecay * ema[i] + (1 - kEmaDecay) * p[i];
    return {before + rate * terms, terms};
  }
};

struct Shared {
  float lr, step, scale, maxNorm;
  std::vector<Buffer> buffers(bool clips) {
    std::vector<Buffer> all{{&lr, {}, {}}, {&step, {}, {}}, {&scale, {}, {}}};
    if (clips)
      all.push_back({&maxNorm, {}, {}});
    return all;
  }
};

class Trial {
 public:
  Trial(const Lengths& lengths, bool clips)
      : lengths(lengths), clips(clips), program(compiled(clips ? kClipped : kPlain)),
        p(lengths, -1.f), g(lengths, -1.f), m(lengths, -1.f), v(lengths, -1.f), ema(lengths, -1.f),
        half(lengths, 0x7fc1), copy(lengths, 0x7fc1) {
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (std::int64_t k = 0; k < lengths[i]; ++k) {
        exact.p.push_back(p[i][k] = normal(random));
        exact.ema.push_back(ema[i][k] = normal(random));
        exact.m.push_back(m[i][k] = 0.1f * normal(random));
        exact.v.push_back(v[i][k] = 0.01f * std::abs(normal(random)));
      }
    lists.emplace(
        program.lists(),
        clips ? std::vector{p.buffers(), half.buffers(), m.buffers(), v.buffers(), ema.buffers()}
              : std::vector{p.buffers(), g.buffers(), m.buffers(), v.buffers()},
        clips ? std::vector{p.buffers(), m.buffers(), v.buffers(), copy.buffers(), ema.buffers()}
              : std::vector{p.buffers(), m.buffers(), v.buffers()});
  }

  void step(int t, float maxNorm) {
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (std::int64_t k = 0; k < lengths[i]; ++k) {
        half[i][k] = toBf16(normal(random));
        g[i][k] = clips ? fromBf16(half[i][k]) : normal(random);
      }
    Shared shared{1e-2f, static_cast<float>(t), 0.5f, maxNorm};
    float norm = NAN;
    std::vector<Buffer> outputs;
    if (clips)
      outputs.push_back({&norm, {}, {}});
    program.runOnHost(lists->inputs(lists->table().data(), shared.buffers(clips)), outputs);
    compare(shared, norm);
  }

 private:
  void compare(const Shared& shared, float norm) {
    double sum = 0, factor = shared.scale;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (float value : g[i])
        sum += double(value) * value;
    double exactNorm = std::sqrt(sum) * shared.scale;
    if (clips) {
      EXPECT_NEAR(norm, exactNorm, 1e-6 * exactNorm);
      factor *= std::min(1.0, shared.maxNorm / (exactNorm + 1e-6));
    }
    double worst = 0; // error as a share of what is allowed
    auto check = [&](double result, double wanted, double allowed) {
      double share = std::abs(result - wanted) / allowed;
      worst = share > worst || std::isnan(share) ? share : worst;
    };
    std::size_t n = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (std::int64_t k = 0; k < lengths[i]; ++k, ++n) {
        double gradient = g[i][k] * factor;
        auto [terms, average] = exact.step(n, gradient, shared.lr, shared.step);
        check(p[i][k], exact.p[n], 2e-6 * terms);
        check(m[i][k], exact.m[n], 2e-6 * average);
        check(v[i][k], exact.v[n], 2e-6 * exact.v[n]);
        if (!clips)
          continue;
        check(ema[i][k], exact.ema[n], 2e-6 * (std::abs(exact.ema[n]) + terms));
        check(fromBf16(copy[i][k]), p[i][k], 0x1.01p-8 * std::abs(p[i][k]));
      }
    EXPECT_LE(worst, 1.0);
    EXPECT_TRUE(p.guardsIntact() && m.guardsIntact() && v.guardsIntact());
    EXPECT_TRUE(ema.guardsIntact() && copy.guardsIntact());
  }

  Lengths lengths;
  bool clips;
  std::mt19937 random{7};
  Program program;
  List<float> p, g, m, v, ema;
  List<std::uint16_t> half, copy;
  Exact exact;
  std::optional<TensorLists> lists;
};

TEST(Lists, AdamwOverSeveralSteps) {
  Trial trial(kOdd, false);
  for (int t = 1; t <= 4; ++t)
    trial.step(t, 0);
}

TEST(Lists, ClippedWithCopyAndAverage) {
  Trial trial(kOdd, true);
  for (int t = 1; t <= 3; ++t)
    trial.step(t, 1.0f);
}

TEST(Lists, ClippingThatDoesNothing) {
  Trial trial(kOdd, true);
  trial.step(1000, 1e6f);
}

TEST(Lists, ThreeHundredTensors) {
  Lengths lengths;
  for (int i = 0; i < 300; ++i)
    lengths.push_back(i % 37);
  Trial trial(lengths, true);
  trial.step(1, 1.0f);
  trial.step(2, 1e6f);
}

TEST(Lists, NothingButEmptyTensors) {
  Trial trial({0, 0, 0}, true);
  trial.step(1, 1.0f);
  Trial none({}, true);
  none.step(1, 1.0f);
}

/// Results elsewhere than the arguments leave these as they are; sums of lists at two depths, and
/// shared numbers that need no sum.
TEST(Lists, SumsOfSums) {
  Program program = compiled(R"(
func.func @spread(%x: tensor<?xf32> {kiln.list}, %y: tensor<?xf16> {kiln.list}, %count: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<f32>, tensor<f32>, tensor<?xf16> {kiln.list}, tensor<f32>) {
  %sum = kiln.reduce sum %x dims [0] : tensor<?xf32> -> tensor<f32>
  %mean = arith.divf %sum, %count : tensor<f32>
  %means = kiln.broadcast %mean dims [] like %x : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %off = arith.subf %x, %means : tensor<?xf32>
  %square = arith.mulf %off, %off : tensor<?xf32>
  %squares = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %ysum = kiln.reduce sum %y dims [0] : tensor<?xf16> -> tensor<f16>
  %wide = arith.extf %ysum : tensor<f16> to tensor<f32>
  %variance = arith.divf %squares, %count : tensor<f32>
  %both = arith.addf %variance, %wide : tensor<f32>
  %twice = arith.addf %count, %count : tensor<f32>
  return %off, %both, %mean, %y, %twice
      : tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<?xf16>, tensor<f32>
})");
  Lengths lengths = {1000, 1, 0, 2500};
  List<float> x(lengths, -1.f), off(lengths, -1.f);
  List<std::uint16_t> y(lengths, 7), same(lengths, 7);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(2.f);
  double count = 3501, sum = 0, squares = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::int64_t k = 0; k < lengths[i]; ++k) {
      sum += x[i][k] = normal(random);
      y[i][k] = 0x3c00; // 1
    }
  TensorLists lists(program.lists(), std::vector{x.buffers(), y.buffers()},
                    std::vector{off.buffers(), same.buffers()});
  EXPECT_EQ(lists.entries(), 4u);
  EXPECT_EQ(lists.elements(), 3501);
  EXPECT_EQ(lists.chunks(), 1 + 1 + 3);
  float given = 3501, both = NAN, mean = NAN, twice = NAN;
  Buffer shared[] = {{&given, {}, {}}};
  Buffer outputs[] = {{&both, {}, {}}, {&mean, {}, {}}, {&twice, {}, {}}};
  program.runOnHost(lists.inputs(lists.table().data(), shared), outputs);
  EXPECT_NEAR(mean, sum / count, 1e-6);
  EXPECT_EQ(twice, 7002);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::int64_t k = 0; k < lengths[i]; ++k) {
      squares += (x[i][k] - sum / count) * (x[i][k] - sum / count);
      EXPECT_NEAR(off[i][k], x[i][k] - sum / count, 2e-6);
      EXPECT_EQ(same[i][k], 0x3c00);
    }
  EXPECT_NEAR(both, squares / count + 3500, 0.01); // 3501 in fp16 is 3500
  EXPECT_TRUE(off.guardsIntact() && same.guardsIntact());
}

} // namespace
