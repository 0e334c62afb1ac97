// Parameters in parts against a whole model. The model is that of CS336's test_fsdp.
#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/dist/fully_shard.h"
#include "kiln/optim.h"

namespace kiln::dist {

namespace {

using at::Tensor;
using Blocks = std::vector<std::shared_ptr<torch::nn::Module>>;

struct Norm : torch::nn::Module {
  explicit Norm(std::int64_t width) { weight = register_parameter("weight", torch::ones({width})); }
  Tensor forward(const Tensor& x) {
    return (x.to(at::kFloat) * (x.to(at::kFloat).square().mean(-1, true) + 1e-5).rsqrt() * weight)
        .to(x.scalar_type());
  }
  Tensor weight;
};

/// embedding(100, 64), norm, 64 -> 128, relu, norm, 128 -> 64, head; norms are of no block.
struct ShardedToy : torch::nn::Module {
  ShardedToy() {
    embedding = register_module("embedding", torch::nn::Embedding(100, 64));
    norm1 = register_module("norm1", std::make_shared<Norm>(64));
    up = register_module("up", linear(64, 128));
    norm2 = register_module("norm2", std::make_shared<Norm>(128));
    down = register_module("down", linear(128, 64, /*bias=*/true));
    head = register_module("head", linear(64, 100));
  }
  Blocks blocks() const { return {embedding.ptr(), up.ptr(), down.ptr(), head.ptr()}; }

  /// Whole if there is no `shard`.
  Tensor forward(Tensor x, FullyShard* shard = nullptr) {
    const auto run = [&](std::size_t i, const FullyShard::Forward& f, const Tensor& in) {
      return shard ? shard->run(i, f, in) : f(in);
    };
    x = run(0, [&](const Tensor& in) { return embedding(in); }, x);
    x = run(
            1, [&](const Tensor& in) { return up(in.to(up->weight.scalar_type())); },
            norm1->forward(x))
            .relu();
    x = run(
        2, [&](const Tensor& in) { return down(in.to(down->weight.scalar_type())); },
        norm2->forward(x));
    return run(3, [&](const Tensor& in) { return head(in.to(head->weight.scalar_type())); }, x);
  }

  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr}, head{nullptr};
  std::shared_ptr<Norm> norm1, norm2;
};

std::shared_ptr<ShardedToy> toyOf(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<ShardedToy>();
}

Tensor lossOf(ShardedToy& model, const Tensor& tokens, FullyShard* shard = nullptr) {
  const Tensor last = model.forward(tokens.slice(1, 0, -1), shard).select(1, -1);
  return torch::cross_entropy_loss(last.to(at::kFloat), tokens.select(1, -1));
}

/// Batch 20, length 8.
Tensor tokensOf(int step) {
  torch::manual_seed(50 + std::uint64_t(step));
  return torch::randint(100, {20, 9});
}

std::map<std::string, Tensor> byName(const std::vector<NamedParameter>& all) {
  std::map<std::string, Tensor> named;
  for (const auto& one : all)
    named[one.name] = one.tensor;
  return named;
}

/// What one process gets that adds the ranks' gradients in the order of ranks.
void stepAlone(ShardedToy& model, torch::optim::Optimizer& optimizer, const Tensor& tokens, int n) {
  optimizer.zero_grad();
  for (const Tensor& part : tokens.chunk(n))
    (lossOf(model, part) / n).backward();
  optimizer.step();
}

/// A part for each rank, equal or not, where chunk() would make fewer.
Tensor mine(const Tensor& tokens) {
  return tokens.tensor_split(ranks()->size())[std::size_t(ranks()->rank())];
}

/// 3 steps of SGD(0.01): equal to the bit where two gradients are summed, else as near as sums are.
void trainsAsOneProcess(const std::shared_ptr<Group>& group) {
  const int n = std::min(group->size(), 4); // chunks of 20 rows
  if (group->size() > 4)
    GTEST_SKIP() << "20 rows have no 8 equal parts";
  for (const int prefetch : {0, 1, 2, 9}) {
    auto model = toyOf(std::uint64_t(group->rank())), alone = toyOf(0);
    model->to(group->device());
    alone->to(group->device());
    FullyShard shard(*model, model->blocks(), group, {.prefetch = prefetch});
    torch::optim::SGD many(shard.parameters(), 0.01), one(alone->parameters(), 0.01);
    for (int step = 0; step < 3; ++step) {
      many.zero_grad();
      const Tensor tokens = tokensOf(step).to(group->device());
      lossOf(*model, mine(tokens), &shard).backward();
      many.step();
      stepAlone(*alone, one, tokens, n);
    }
    const auto whole = byName(shard.whole());
    for (const auto& parameter : alone->named_parameters()) {
      const Tensor& got = whole.at(parameter.key());
      const bool same = n <= 2 && got.is_cpu() ? at::equal(got, parameter.value())
                                               : at::allclose(got, parameter.value(), 1e-5, 1e-7);
      EXPECT_TRUE(same) << parameter.key() << ": " << (got - parameter.value()).abs().max();
    }
  }
}

} // namespace

TEST(FullyShard, TrainsAsOneProcess) {
  trainsAsOneProcess(ranks());
}

// Also where the thread's device is the first one, and this rank's another.
TEST(FullyShard, TrainsAsOneProcessOnGpus) {
  if (!haveGpus())
    GTEST_SKIP() << "needs a GPU for each of several ranks";
  trainsAsOneProcess(startWith({.device = ownGpu()}));
}

TEST(FullyShard, ComputesInFp16OverFp32Masters) {
  const auto group = ranks();
  auto model = toyOf(0), alone = toyOf(0);
  FullyShard shard(*model, model->blocks(), group, {.compute = at::kHalf});
  torch::optim::SGD many(shard.parameters(), 0.01), one(alone->parameters(), 0.01);
  for (int step = 0; step < 3; ++step) {
    many.zero_grad();
    lossOf(*model, tokensOf(step), &shard).backward(); // the same on all ranks
    many.step();
    one.zero_grad();
    lossOf(*alone, tokensOf(step)).backward();
    one.step();
  }
  for (const Tensor& part : shard.parameters())
    EXPECT_EQ(part.scalar_type(), at::kFloat);
  const auto whole = byName(shard.whole());
  for (const auto& parameter : alone->named_parameters())
    EXPECT_TRUE(at::allclose(whole.at(parameter.key()), parameter.value(), 1e-4, 1e-4))
        << parameter.key();
}

TEST(FullyShard, GradientsAreFp32PartsAndReplicasAreAlike) {
  const auto group = ranks();
  auto model = toyOf(0);
  FullyShard shard(*model, model->blocks(), group, {.compute = at::kBFloat16});
  lossOf(*model, mine(tokensOf(group->rank())), &shard).backward();
  double elements = 0;
  for (const auto& one : shard.named()) {
    ASSERT_TRUE(one.tensor.grad().defined()) << one.name;
    EXPECT_EQ(one.tensor.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(one.tensor.grad().sizes(), one.tensor.sizes());
    if (one.name.find('@') != std::string::npos) {
      elements += double(one.tensor.numel());
      continue;
    }
    const Tensor first = one.tensor.grad().clone();
    group->broadcast(first).wait();
    EXPECT_TRUE(at::equal(first, one.tensor.grad()));
  }
  EXPECT_EQ(group->sum(elements), 100 * 64 + 64 * 128 + 128 * 64 + 64 + 64 * 100);
}

TEST(FullyShard, ParametersAreThereOnlyWhileTheyAreUsed) {
  const auto group = ranks();
  auto model = toyOf(0);
  FullyShard shard(*model, model->blocks(), group, {.prefetch = 1});
  const auto isHere = [&](const torch::nn::Linear& of) {
    return of->weight.storage().nbytes() > 0;
  };
  EXPECT_FALSE(isHere(model->up));
  const Tensor tokens = mine(tokensOf(0));
  Tensor x = shard.run(0, [&](const Tensor& in) { return model->embedding(in); }, tokens);
  EXPECT_TRUE(isHere(model->up)); // ahead
  EXPECT_FALSE(isHere(model->down));
  x = shard.run(1, [&](const Tensor& in) { return model->up(in); }, x);
  EXPECT_FALSE(isHere(model->up));
  x = shard.run(2, [&](const Tensor& in) { return model->down(in); }, x);
  x = shard.run(3, [&](const Tensor& in) { return model->head(in); }, x);
  EXPECT_FALSE(isHere(model->head));
  x.square().mean().backward();
  for (const auto& of : {model->up, model->down, model->head})
    EXPECT_FALSE(isHere(of));
  EXPECT_FALSE(model->up->weight.grad().defined());
}

TEST(FullyShard, BackwardsAddUpAndClipScalesAllParts) {
  const auto group = ranks();
  auto model = toyOf(0), alone = toyOf(0);
  FullyShard shard(*model, model->blocks(), group);
  for (int part = 0; part < 3; ++part) {
    lossOf(*model, tokensOf(part), &shard).backward(); // the same on all ranks
    lossOf(*alone, tokensOf(part)).backward();
  }
  const double norm = torch::nn::utils::clip_grad_norm_(alone->parameters(), 0.1);
  EXPECT_NEAR(shard.clip(0.1).item<double>(), norm, 1e-5 * norm);
  torch::optim::SGD many(shard.parameters(), 1), one(alone->parameters(), 1);
  many.step();
  one.step();
  const auto whole = byName(shard.whole());
  for (const auto& parameter : alone->named_parameters())
    EXPECT_TRUE(at::allclose(whole.at(parameter.key()), parameter.value(), 1e-5, 1e-6));
}

TEST(FullyShard, WholeParametersGoIntoAnotherNumberOfRanks) {
  const auto group = ranks();
  auto model = toyOf(0), other = toyOf(7);
  FullyShard shard(*model, model->blocks(), group), alone(*other, other->blocks(), Group::alone());
  alone.load(shard.whole());
  const torch::NoGradGuard constant;
  EXPECT_TRUE(at::equal(lossOf(*model, tokensOf(1), &shard), lossOf(*other, tokensOf(1), &alone)));
  shard.load(alone.whole());
  EXPECT_TRUE(at::equal(lossOf(*model, tokensOf(1), &shard), lossOf(*other, tokensOf(1), &alone)));
}

TEST(FullyShard, RefusesWhatItCannotDivide) {
  const auto group = ranks();
  auto model = toyOf(0);
  EXPECT_THROW(FullyShard(*model, {model->up.ptr(), model->up.ptr()}, group), Error);
  EXPECT_THROW(FullyShard(*model, {linear(2, 2).ptr()}, group), Error);
  EXPECT_THROW(FullyShard(*model, {std::make_shared<torch::nn::Module>()}, group), Error);
  EXPECT_THROW(FullyShard(*model, model->blocks(), group, {.prefetch = -1}), Error);
  EXPECT_THROW(FullyShard(*model, model->blocks(), group, {.compute = at::kLong}), Error);
  auto wide = toyOf(0);
  wide->to(at::kDouble);
  EXPECT_THROW(FullyShard(*wide, wide->blocks(), group), Error);
  auto taken = toyOf(0);
  FullyShard shard(*taken, taken->blocks(), group);
  EXPECT_THROW(shard.run(9, [](const Tensor& x) { return x; }, at::ones({1})), Error);
  EXPECT_THROW(shard.load({}), Error);
}

} // namespace kiln::dist
