// Kernels of buckets on the host target: against fp64, against ATen's bits, and under DataParallel.
#include "test/Errors.h"
#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/bucket_ops.h"
#include "kiln/torch.h"

namespace kiln::dist {

namespace {

using at::Tensor;

/// Kiln's kernels for tensors of the CPU, for a scope.
class KilnOnCpu {
 public:
  KilnOnCpu() {
    kiln::Options options;
    options.place = kiln::Place::cpu;
    enable(options);
  }
  ~KilnOnCpu() { disable(); }
  KilnOnCpu(const KilnOnCpu&) = delete;
  KilnOnCpu& operator=(const KilnOnCpu&) = delete;
};

/// Around vectors, chunks and blocks of several chunks.
constexpr std::int64_t kLengths[] = {0, 1, 2, 3, 5, 8, 1023, 1024, 1025, 2050, 9001};

std::vector<Tensor> drawn(at::ScalarType dtype) {
  std::vector<Tensor> all;
  for (const std::int64_t length : kLengths)
    all.push_back(at::randn({length}).to(dtype));
  return all;
}

std::vector<Tensor> emptyLike(const std::vector<Tensor>& tensors, at::ScalarType dtype) {
  std::vector<Tensor> all;
  for (const Tensor& one : tensors)
    all.push_back(at::full_like(one, std::nan(""), one.options().dtype(dtype)));
  return all;
}

void append(std::vector<Tensor>& to, const std::vector<Tensor>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Half a unit in the last place, as a share.
double rounding(at::ScalarType dtype) {
  return dtype == at::kFloat ? 0x1p-24 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
}

void expectRounded(const Tensor& found, const Tensor& exact, double roundings = 1) {
  const Tensor error = (found.to(at::kDouble) - exact).abs(),
               allowed =
                   exact.abs() * (rounding(found.scalar_type()) + roundings * 0x1p-24) + 0x1p-24;
  EXPECT_TRUE((error <= allowed).all().item<bool>())
      << found.scalar_type() << ", " << (error / allowed).max();
}

} // namespace

/// What is here is no business of ranks: once is enough.
class BucketOps : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks()->size() > 1)
      GTEST_SKIP() << "tested by one rank";
    at::manual_seed(3);
  }
};

TEST_F(BucketOps, ScaledCopiesOfAllDtypesAreOneLaunch) {
  constexpr double scale = 1.0 / 3;
  std::vector<Tensor> from, to;
  for (const auto a : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto b : {at::kFloat, at::kBFloat16, at::kHalf}) {
      append(from, drawn(a));
      append(to, emptyLike(std::vector(from.end() - std::ssize(kLengths), from.end()), b));
    }
  const KilnOnCpu enabled;
  optim::ScaledCopy copy(scale);
  for (int time = 0; time < 2; ++time) { // then with the table as it is
    copy.run(from, to);
    EXPECT_EQ(copy.launches(), 1u);
    for (std::size_t i = 0; i < from.size(); ++i)
      expectRounded(to[i], from[i].to(at::kDouble) * scale);
    for (Tensor& one : from)
      one.mul_(-2);
  }
}

TEST_F(BucketOps, ScaledCopiesHaveATensBits) {
  std::vector<Tensor> from = drawn(at::kFloat);
  from.push_back(at::randn({7, 5}).t()); // not contiguous, and its target is neither
  from.push_back(at::randn({6, 9}).t()); // its target is
  std::vector<Tensor> wide = emptyLike(from, at::kFloat), narrow = emptyLike(from, at::kBFloat16),
                      given = from;
  wide.back() = wide.back().contiguous();
  const auto results = [&](std::size_t launches) {
    std::vector<Tensor> all;
    for (const auto* to : {&wide, &narrow}) {
      optim::ScaledCopy copy(1.0 / 8);
      copy.run(from, *to);
      EXPECT_EQ(copy.launches(), launches);
      for (const Tensor& one : *to)
        all.push_back(one.clone());
    }
    std::vector<Tensor> inPlace;
    for (const Tensor& one : from)
      inPlace.push_back(one.clone());
    optim::ScaledCopy copy(1.0 / 3);
    copy.run(inPlace, inPlace);
    append(all, inPlace);
    return all;
  };
  const auto expected = results(0);
  const KilnOnCpu enabled;
  expectEqual(results(1), expected);
}

TEST_F(BucketOps, SumsOfRanksAreInTheirOrder) {
  for (const auto dtype : {at::kBFloat16, at::kFloat})
    for (const int count : {1, 2, 3, 8}) {
      std::vector<Tensor> parts;
      Tensor exact = at::zeros({9001}, at::kDouble), sizes = exact.clone();
      for (int i = 0; i < count; ++i) {
        parts.push_back(at::randn({9001}).to(dtype));
        exact += parts.back().to(at::kDouble);
        sizes += parts.back().to(at::kDouble).abs();
      }
      for (const auto out : {at::kFloat, at::kBFloat16}) {
        Tensor byATen = at::empty({9001}, out), byKiln = byATen.clone();
        optim::OrderedSum one, other;
        one.run(parts, byATen);
        EXPECT_EQ(one.launches(), 0u);
        const KilnOnCpu enabled;
        other.run(parts, byKiln);
        EXPECT_EQ(other.launches(), count == 1 && dtype == out ? 0u : 1u);
        EXPECT_TRUE(at::equal(byKiln, byATen)) << dtype << " " << count << " " << out;
        const Tensor error = (byKiln.to(at::kDouble) - exact).abs();
        EXPECT_TRUE(
            (error <= exact.abs() * rounding(out) + sizes * count * 0x1p-24).all().item<bool>());
      }
    }
}

TEST_F(BucketOps, SquaresOfAllTensorsAreSummedAtOnce) {
  std::vector<Tensor> tensors = drawn(at::kFloat);
  append(tensors, drawn(at::kBFloat16));
  double exact = 0;
  for (const Tensor& one : tensors)
    exact += one.to(at::kDouble).square().sum().item<double>();
  optim::SquareSum squares;
  EXPECT_NEAR(squares.run(tensors).item<double>(), exact, 1e-6 * exact);
  EXPECT_EQ(squares.launches(), 0u);
  const KilnOnCpu enabled;
  const Tensor found = squares.run(tensors);
  EXPECT_EQ(squares.launches(), 1u);
  EXPECT_NEAR(found.item<double>(), exact, 1e-6 * exact);
  EXPECT_TRUE(at::equal(squares.run(tensors), found)) << "bit by bit";
  EXPECT_NEAR(squares.run({tensors[8]}).item<double>(),
              tensors[8].to(at::kDouble).square().sum().item<double>(), 1e-3);
}

TEST_F(BucketOps, WhatDoesNotFitIsRefused) {
  const Tensor four = at::ones({4}), five = at::ones({5});
  EXPECT_NE(test::errorOf(ErrorKind::input, [&] { optim::ScaledCopy().run({four}, {five}); })
                .find("tensor 0 of [4] on cpu to [5] on cpu"),
            std::string::npos);
  EXPECT_NE(test::errorOf(ErrorKind::input, [&] { optim::ScaledCopy().run({four}, {}); })
                .find("1 tensors to 0"),
            std::string::npos);
  EXPECT_NE(test::errorOf(ErrorKind::input, [&] { optim::OrderedSum().run({four, five}, four); })
                .find("5 elements of Float"),
            std::string::npos);
  EXPECT_NE(
      test::errorOf(ErrorKind::input, [&] { optim::OrderedSum().run({}, four); }).find("no tensor"),
      std::string::npos);
  EXPECT_NE(test::errorOf(ErrorKind::input, [&] { optim::SquareSum().run({}); }).find("no tensor"),
            std::string::npos);
}

/// The same bits in gradients, on all ranks, with what one of them lacks.
TEST(BucketKernels, GradientsAreThoseOfATens) {
  const auto group = ranks();
  const auto gradients = [&](const DataParallelOptions& options) {
    torch::manual_seed(0);
    ToyModel model;
    DataParallel parallel(model, group, options);
    std::vector<Tensor> all;
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      torch::manual_seed(10 * std::uint64_t(step) + std::uint64_t(group->rank()));
      const Tensor hidden = model.fc1(torch::randn({4, 10}));
      const bool isShort = step == 1 && group->rank() == 0; // a rank without fc2 and fc3
      (isShort ? hidden.sum() : model.fc3(model.fc2(hidden.relu())).square().sum()).backward();
      for (const Tensor& one : trainable(model))
        all.push_back(one.grad().defined() ? one.grad().clone() : Tensor());
    }
    return all;
  };
  for (const bool isShort : {false, true}) {
    DataParallelOptions options;
    if (isShort)
      options.wire = at::kBFloat16;
    const auto expected = gradients(options);
    const KilnOnCpu enabled;
    expectEqual(gradients(options), expected);
  }
}

} // namespace kiln::dist
