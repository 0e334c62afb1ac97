// Replicas against one process on all ranks' batches joined.
#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/optim.h"

#include <fmt/format.h>

namespace kiln::dist {

namespace {

using at::Tensor;

template <typename Model> std::shared_ptr<Model> seeded(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<Model>();
}

constexpr Mode kModes[] = {Mode::perParameter, Mode::flat, Mode::bucketed, Mode::overlapped};

/// The part of a batch that is a rank's.
Tensor partOf(const Tensor& batch) {
  const auto group = ranks();
  return batch.chunk(group->size())[std::size_t(group->rank())];
}

/// 5 steps on 10 rows a rank, as CS336's test_ddp: after each, this rank's parameters and those of
/// one process on all rows are close, and before it they differ.
template <typename Model> void expectAsOneProcess(const DataParallelOptions& options) {
  const auto group = ranks();
  auto alone = seeded<Model>(0), model = seeded<Model>(std::uint64_t(group->rank()));
  DataParallel parallel(*model, group, options);
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    ASSERT_TRUE(at::equal(model->parameters()[i], alone->parameters()[i])) << "rank 0's are sent";
  torch::optim::SGD one(trainable(*alone), 0.1), many(trainable(*model), 0.1);
  torch::manual_seed(42);
  const Tensor x = torch::randn({10 * group->size(), 10}),
               y = torch::randn({10 * group->size(), 5});
  for (int step = 0; step < 5; ++step) {
    const Tensor order = torch::randperm(x.size(0));
    one.zero_grad();
    torch::mse_loss(alone->forward(x.index({order})), y.index({order})).backward();
    one.step();
    EXPECT_FALSE(at::allclose(model->fc1->weight, alone->fc1->weight)) << "nothing to test";

    many.zero_grad();
    torch::mse_loss(model->forward(partOf(x.index({order}))), partOf(y.index({order}))).backward();
    if (options.deferred)
      parallel.syncGrad();
    many.step();
    for (std::size_t i = 0; i < model->parameters().size(); ++i)
      EXPECT_TRUE(at::allclose(model->parameters()[i], alone->parameters()[i])) << i;
  }
}

/// Gradients of this rank's replica after some backwards.
std::vector<Tensor> gradientsOf(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const Tensor& one : trainable(module))
    all.push_back(one.grad().defined() ? one.grad().clone() : Tensor());
  return all;
}

/// The same on all ranks, to the bit.
void expectSameOnAllRanks(const std::vector<Tensor>& tensors) {
  const auto group = ranks();
  for (const Tensor& one : tensors)
    if (one.defined()) {
      const Tensor first = one.detach().clone().contiguous();
      group->broadcast(first).wait();
      EXPECT_TRUE(at::equal(first, one));
    }
}

} // namespace

TEST(DataParallel, TrainsAsOneProcessInAllModes) {
  for (const Mode mode : kModes) {
    expectAsOneProcess<ToyModel>({.mode = mode});
    expectAsOneProcess<TiedToyModel>({.mode = mode});
  }
}

// Bucket sizes of CS336's test_ddp (2025): 2, 3 and 1 buckets.
TEST(DataParallel, TrainsAsOneProcessInBucketsOfAllSizes) {
  for (const double megabytes : {0.0016, 0.0001, 0.01}) {
    const auto bytes = std::int64_t(megabytes * 1024 * 1024);
    expectAsOneProcess<ToyModel>({.bucketBytes = bytes, .firstBucketBytes = bytes});
    expectAsOneProcess<TiedToyModel>({.bucketBytes = bytes, .firstBucketBytes = bytes});
  }
}

TEST(DataParallel, TrainsAsOneProcessByDeferredSums) {
  expectAsOneProcess<ToyModel>({.deferred = true});
}

TEST(DataParallel, BucketsAreInTheOrderOfTheFirstBackward) {
  auto model = seeded<ToyModel>(0);
  DataParallel parallel(*model, ranks(), {.bucketBytes = 0});
  EXPECT_TRUE(parallel.buckets().empty());
  model->forward(torch::ones({2, 10})).sum().backward();
  const std::vector<std::vector<std::string>> expected = {
      {"fc3.weight"}, {"fc2.fc.weight"}, {"fc1.weight"}};
  EXPECT_EQ(parallel.buckets(), expected);
}

/// Of 8 MiB each: a sixteenth of all would be 4 MiB, half of what is left at the end is less
/// than 25.
TEST(DataParallel, BucketsAreAtLeast25MiBUntilTheEndUnlessTold) {
  std::vector<NamedParameter> all;
  for (int i = 0; i < 8; ++i)
    all.push_back({fmt::format("w{}", i), torch::zeros({1 << 21}).requires_grad_()});
  DataParallel parallel(all, ranks());
  Tensor sum = torch::zeros({});
  for (const NamedParameter& one : all)
    sum = sum + one.tensor.sum();
  sum.backward();
  std::vector<std::size_t> counts;
  for (const auto& bucket : parallel.buckets())
    counts.push_back(bucket.size());
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 4, 2, 1}));
}

TEST(DataParallel, GradientsAreViewsOfBuckets) {
  auto model = seeded<ToyModel>(0);
  DataParallel parallel(*model, ranks());
  model->forward(torch::ones({2, 10})).sum().backward();
  const auto* storage = model->fc1->weight.grad().storage().unsafeGetStorageImpl();
  for (const Tensor& one : trainable(*model))
    EXPECT_EQ(one.grad().storage().unsafeGetStorageImpl(), storage);
  EXPECT_FALSE(model->frozen.grad().defined());
}

// Two ranks' sums have one order, and so have sums of what is sent in bf16, for any number.
TEST(DataParallel, IsOneProcessThatAddsUpToTheBit) {
  const auto group = ranks();
  const int n = group->size();
  for (const bool inBf16 : {false, true}) {
    if (!inBf16 && n > 2)
      continue;
    auto model = seeded<ToyModel>(3), alone = seeded<ToyModel>(3);
    DataParallelOptions options;
    if (inBf16)
      options.wire = at::kBFloat16;
    DataParallel parallel(*model, group, options);
    torch::manual_seed(1);
    const Tensor x = torch::randn({4 * n, 10});
    model->forward(partOf(x)).square().mean().backward();
    std::vector<Tensor> sums;
    for (const Tensor& part : x.chunk(n)) {
      alone->zero_grad();
      alone->forward(part).square().mean().backward();
      for (std::size_t i = 0; i < trainable(*alone).size(); ++i) {
        Tensor mine = trainable(*alone)[i].grad() * (1.0 / n);
        if (inBf16 && n > 1)
          mine = mine.to(at::kBFloat16).to(at::kFloat);
        if (sums.size() <= i)
          sums.push_back(mine);
        else
          sums[i] = sums[i] + mine;
      }
    }
    if (inBf16 && n > 1)
      for (Tensor& sum : sums)
        sum = sum.to(at::kBFloat16).to(at::kFloat);
    expectEqual(gradientsOf(*model), sums);
  }
}

TEST(DataParallel, NoSyncAddsUpAndTheNextBackwardSendsTheSum) {
  const auto group = ranks();
  auto model = seeded<ToyModel>(3), alone = seeded<ToyModel>(3);
  DataParallel parallel(*model, group);
  torch::manual_seed(1);
  for (int step = 0; step < 2; ++step) { // the first makes the buckets
    model->zero_grad();
    alone->zero_grad();
    for (int part = 0; part < 3; ++part) {
      const Tensor x = torch::randn({4 * group->size(), 10});
      alone->forward(x).square().mean().backward();
      if (part < 2) {
        const auto quiet = parallel.noSync();
        model->forward(partOf(x)).square().mean().backward();
      } else {
        model->forward(partOf(x)).square().mean().backward();
      }
    }
    for (std::size_t i = 0; i < trainable(*model).size(); ++i)
      EXPECT_TRUE(
          at::allclose(trainable(*model)[i].grad(), trainable(*alone)[i].grad(), 1e-4, 1e-6));
    expectSameOnAllRanks(gradientsOf(*model));
  }
}

TEST(DataParallel, BackwardsOneAfterTheOtherAddTheirMeans) {
  const auto group = ranks();
  auto model = seeded<ToyModel>(3), alone = seeded<ToyModel>(3);
  DataParallel parallel(*model, group);
  torch::manual_seed(1);
  for (int part = 0; part < 3; ++part) {
    const Tensor x = torch::randn({4 * group->size(), 10});
    alone->forward(x).square().mean().backward();
    model->forward(partOf(x)).square().mean().backward();
  }
  for (std::size_t i = 0; i < trainable(*model).size(); ++i)
    EXPECT_TRUE(at::allclose(trainable(*model)[i].grad(), trainable(*alone)[i].grad(), 1e-4, 1e-6));
}

TEST(DataParallel, UnusedParametersCountAsZerosOrHaveNoGradient) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  const Tensor a = torch::ones({3}).requires_grad_(), b = torch::ones({2, 2}).requires_grad_(),
               c = torch::ones({5}).requires_grad_();
  DataParallel parallel(std::vector<NamedParameter>{{"a", a}, {"b", b}, {"c", c}}, group);
  for (int step = 0; step < 3; ++step) {
    a.mutable_grad().reset();
    b.mutable_grad().reset();
    c.mutable_grad().reset();
    const bool isMine = step % n == rank; // b is used by one rank, each time another
    Tensor loss = (a * (rank + 1)).sum();
    if (isMine)
      loss = loss + (b * n).sum();
    loss.backward();
    EXPECT_TRUE(at::allclose(a.grad(), at::full({3}, (n + 1) / 2.0)));
    EXPECT_TRUE(at::equal(b.grad(), at::ones({2, 2}))) << step;
    EXPECT_FALSE(c.grad().defined());
  }
}

TEST(DataParallel, RandomParametersOfAllKinds) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  torch::manual_seed(77); // the same draws on all ranks
  const auto draw = [](std::int64_t below) {
    return torch::randint(below, {1}).item<std::int64_t>();
  };
  for (int round = 0; round < 6; ++round) {
    std::vector<NamedParameter> all;
    const auto count = 1 + draw(12);
    for (std::int64_t i = 0; i < count; ++i) {
      const at::ScalarType dtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
      std::vector<std::int64_t> sizes;
      for (auto left = draw(4); left > 0; --left)
        sizes.push_back(draw(9)); // 0, too
      Tensor one = at::zeros(sizes, dtypes[draw(4)]);
      if (one.dim() == 2 && draw(2) == 1)
        one = at::zeros({sizes[1], sizes[0]}, one.scalar_type()).t(); // columns first
      all.push_back({fmt::format("p{}", i), one.requires_grad_(draw(5) > 0)});
    }
    const Mode mode = kModes[draw(4)];
    DataParallel parallel(
        all, group, {.mode = mode, .bucketBytes = draw(2000), .firstBucketBytes = draw(2000)});
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor> expected;
      Tensor loss = at::zeros({}).requires_grad_();
      for (const auto& one : all) {
        const auto usedBy = draw(std::int64_t(1) << n); // a rank a bit
        const Tensor weight = at::round(torch::randn(one.tensor.sizes()) * 4);
        one.tensor.mutable_grad().reset();
        double sum = 0;
        for (int r = 0; r < n; ++r)
          sum += (usedBy >> r & 1) ? r + 1 : 0;
        if (one.tensor.requires_grad()) {
          expected.push_back(usedBy ? (weight * (sum / n)).to(one.tensor.scalar_type()) : Tensor());
          if (usedBy >> rank & 1)
            loss = loss + (one.tensor.to(at::kFloat) * weight * (rank + 1)).sum();
        }
      }
      const auto quiet = parallel.noSync();
      loss.backward();
      parallel.syncGrad();
      std::size_t next = 0;
      for (const auto& one : all)
        if (one.tensor.requires_grad()) {
          const Tensor& want = expected[next++];
          ASSERT_EQ(one.tensor.grad().defined(), want.defined()) << one.name;
          if (want.defined()) {
            EXPECT_TRUE(at::allclose(one.tensor.grad(), want, 2e-2, 1e-2)) << one.name;
          }
        }
    }
  }
}

TEST(DataParallel, RepeatsToTheBitAndRanksAreAlike) {
  std::vector<Tensor> first;
  for (int time = 0; time < 2; ++time) {
    const auto group = ranks();
    auto model = seeded<TiedToyModel>(5);
    DataParallel parallel(*model, group, {.bucketBytes = 1000});
    optim::AdamW optimizer(trainable(*model), torch::optim::AdamWOptions(1e-2),
                           {.maxGradNorm = 0.1});
    torch::manual_seed(9);
    for (int step = 0; step < 4; ++step) {
      model->forward(partOf(torch::randn({4 * group->size(), 10}))).square().mean().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    expectSameOnAllRanks(trainable(*model));
    if (time == 0)
      for (const Tensor& one : trainable(*model))
        first.push_back(one.detach().clone());
    else
      expectEqual(first, trainable(*model));
  }
}

TEST(DataParallel, SaysWhatDiffersOnWhichRank) {
  const auto group = ranks();
  if (group->size() == 1)
    GTEST_SKIP() << "one rank differs from nobody";
  const int last = group->size() - 1;
  const auto expectRefused = [&](const std::vector<NamedParameter>& parameters,
                                 const std::string& text, const DataParallelOptions& options = {}) {
    try {
      DataParallel parallel(parameters, group, options);
      FAIL() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const bool isLast = group->rank() == last;
  const Tensor one = torch::zeros({2, 3}).requires_grad_();
  const Tensor other = isLast ? torch::zeros({3, 2}).requires_grad_() : one;
  expectRefused({{"w", other}},
                fmt::format("rank {} has w [3, 2] Float, rank 0 has w [2, 3] Float", last));
  expectRefused({{isLast ? "v" : "w", one}}, fmt::format("rank {} has v [2, 3] Float", last));
  expectRefused({{"w", isLast ? one.detach().to(at::kDouble).requires_grad_() : one}}, "Double");
  expectRefused({{"w", isLast ? one.detach() : one}}, "frozen");
  expectRefused(isLast ? std::vector<NamedParameter>{{"w", one}}
                       : std::vector<NamedParameter>{{"w", one}, {"x", one.clone().detach()}},
                "has no more, rank 0 has x [2, 3]");
  expectRefused({{"w", one}}, "buckets of 7 bytes", {.bucketBytes = isLast ? 7 : 8});
}

TEST(DataParallel, RefusesWhatItCannotSend) {
  const auto group = ranks();
  const Tensor leaf = torch::zeros({2}).requires_grad_();
  EXPECT_THROW(DataParallel(std::vector<NamedParameter>{{"w", leaf * 2}}, group), Error);
  EXPECT_THROW(DataParallel(std::vector<NamedParameter>{{"w", leaf}}, group, {.bucketBytes = -1}),
               Error);
  EXPECT_THROW(DataParallel(std::vector<NamedParameter>{{"w", leaf}}, group, {.wire = at::kLong}),
               Error);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 4).sparse(true));
  DataParallel parallel(*table, group);
  EXPECT_THROW(table(torch::tensor({1, 2})).sum().backward(), Error);
}

TEST(DataParallel, HooksEndWithItAndKeepOthers) {
  const auto group = ranks();
  const Tensor w = torch::ones({2}).requires_grad_();
  {
    DataParallel outer(std::vector<NamedParameter>{{"w", w}}, group);
    {
      DataParallel inner(std::vector<NamedParameter>{{"w", w}}, group, {.deferred = true});
    }
    (w * (group->rank() + 1)).sum().backward();
    EXPECT_TRUE(at::allclose(w.grad(), at::full({2}, (group->size() + 1) / 2.0)));
  }
  w.mutable_grad().reset();
  (w * (group->rank() + 1)).sum().backward();
  EXPECT_TRUE(at::equal(w.grad(), at::full({2}, group->rank() + 1.0f)));
}

} // namespace kiln::dist
