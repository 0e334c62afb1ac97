// An optimizer in parts against the whole one.
#include "test/dist/ShardedRun.h"

namespace kiln::dist {

namespace {

using at::Tensor;
using torch::optim::AdamWOptions;

/// Two equal gradients have an exact mean: then tolerances are numpy's assert_allclose's. Sums of
/// more are rounded, which AdamW makes more of.
void expectClose(const Tensor& a, const Tensor& b) {
  const bool isExact = ranks()->size() <= 2;
  EXPECT_TRUE(at::allclose(a, b, isExact ? 1e-7 : 1e-3, isExact ? 0 : 1e-4)) << (a - b).abs().max();
}

/// The same data on all ranks, as there; 10 steps.
template <typename Model> void expectAsWhole(const DataParallelOptions& options) {
  const auto group = ranks();
  auto model = toy<Model>(), alone = toy<Model>();
  DataParallel parallel(*model, group, options);
  ShardedOptimizer sharded(parallel, trainable(*model), toyOptions());
  torch::optim::AdamW whole(trainable(*alone), toyOptions());
  for (int step = 0; step < 10; ++step) {
    const Tensor x = torch::randn({32, 10});
    for (auto* one : {model.get(), alone.get()})
      one->forward(x).square().sum().backward();
    sharded.step();
    whole.step();
    whole.zero_grad();
  }
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    expectClose(model->parameters()[i], alone->parameters()[i]);
}

} // namespace

TEST(ShardedOptimizer, StepsAsTheWholeOne) {
  for (const Mode mode : {Mode::overlapped, Mode::flat, Mode::perParameter}) {
    expectAsWhole<ToyModel>({.mode = mode, .sharded = true});
    expectAsWhole<TiedToyModel>({.mode = mode, .sharded = true});
  }
  expectAsWhole<ToyModel>({.bucketBytes = 300, .firstBucketBytes = 300, .sharded = true});
}

/// forward() of the toy, each layer's parameters asked for before they are read.
Tensor needing(ShardedOptimizer& optimizer, TiedToyModel& model, Tensor x) {
  for (auto* layer : {&model.fc1, &model.fc2, &model.fc3, &model.fc4, &model.fc5}) {
    optimizer.need(**layer);
    x = (*layer)(x);
    if (layer != &model.fc5)
      x = x.relu();
  }
  return x;
}

TEST(ShardedOptimizer, GathersWhatIsNeeded) {
  const auto group = ranks();
  const DataParallelOptions options{.bucketBytes = 1500, .firstBucketBytes = 100, .sharded = true};
  auto model = toy<TiedToyModel>(), other = toy<TiedToyModel>();
  DataParallel parallel(*model, group, options), usual(*other, group, options);
  ShardedOptimizer late(parallel, trainable(*model), toyOptions(),
                        {.maxGradNorm = 0.5, .gather = Gather::whenNeeded}),
      inStep(usual, trainable(*other), toyOptions(), {.maxGradNorm = 0.5});
  const auto expectSame = [&] {
    late.need(*model);
    late.need(*model); // costs nothing
    expectEqual(clones(*model), clones(*other));
  };
  for (int step = 0; step < 6; ++step) {
    torch::manual_seed(100 + 10 * step + group->rank());
    const Tensor x = torch::randn({8, 10});
    needing(late, *model, x).square().sum().backward();
    other->forward(x).square().sum().backward();
    late.step();
    inStep.step();
    if (step % 3 == 2)
      expectSame();
  }
  expectSame();
  const std::string state = textOf(late.state()), expected = textOf(inStep.state());
  EXPECT_EQ(state, expected);
  late.step(); // without gradients: nothing is to be gathered
  expectSame();
}

TEST(ShardedOptimizer, SaysWhatNobodyAskedFor) {
  auto model = toy<TiedToyModel>();
  DataParallel parallel(*model, ranks(), {.sharded = true});
  ShardedOptimizer optimizer(parallel, trainable(*model), toyOptions(),
                             {.gather = Gather::whenNeeded});
  const Tensor x = torch::ones({8, 10});
  model->forward(x).sum().backward(); // nobody has updated them yet
  optimizer.step();
  try {
    model->forward(x).sum().backward();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("was read as it was before the last step; call need()"),
        std::string::npos)
        << error.what();
  }
}

TEST(ShardedOptimizer, DividesTheState) {
  ShardedRun run(ranks());
  run.step(0);
  double elements = 0;
  for (const Tensor& one : trainable(*run.model))
    elements += double(one.numel());
  const double all = run.group->sum(double(run.optimizer.stateBytes()));
  EXPECT_EQ(all, elements * 8); // once, in all
  EXPECT_LE(double(run.optimizer.stateBytes()), all / run.group->size() + 3 * 64 * 8 * 8);
}

TEST(ShardedOptimizer, ClipsTheNormOfAll) {
  const auto group = ranks();
  ShardedRun run(group);
  auto alone = toy<TiedToyModel>();
  optim::AdamW whole(trainable(*alone), toyOptions(), {.maxGradNorm = 0.5});
  for (int step = 0; step < 4; ++step) {
    run.step(step);
    torch::manual_seed(100 + step);
    alone->forward(torch::randn({8, 10})).square().sum().backward();
    whole.step();
    whole.zero_grad();
    EXPECT_TRUE(at::allclose(run.optimizer.gradNorm(), whole.gradNorm(), 1e-5));
  }
  for (std::size_t i = 0; i < alone->parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(run.model->parameters()[i], alone->parameters()[i], 1e-4, 1e-6));
}

TEST(ShardedOptimizer, KeepsGroupsRatesAndUnusedParametersApart) {
  const auto group = ranks();
  const auto make = [] {
    torch::manual_seed(3);
    std::vector<Tensor> all;
    for (const std::int64_t count : {100, 7, 300, 1})
      all.push_back(torch::randn({count}).requires_grad_());
    return all;
  };
  const auto groupsOf = [](const std::vector<Tensor>& p) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{p[0], p[2]},
                        std::make_unique<AdamWOptions>(AdamWOptions(0.1).weight_decay(0.3)));
    groups.emplace_back(std::vector<Tensor>{p[1]},
                        std::make_unique<AdamWOptions>(AdamWOptions(0.01).weight_decay(0)));
    return groups;
  };
  const auto mine = make(), theirs = make();
  std::vector<NamedParameter> named;
  for (std::size_t i = 0; i < mine.size(); ++i)
    named.push_back({std::to_string(i), mine[i]});
  DataParallel parallel(named, group, {.sharded = true});
  ShardedOptimizer sharded(parallel, groupsOf(mine));
  sharded.add_param_group(torch::optim::OptimizerParamGroup({mine[3]}));
  torch::optim::AdamW whole(groupsOf(theirs));
  whole.add_param_group(torch::optim::OptimizerParamGroup({theirs[3]}));
  for (int step = 0; step < 5; ++step) {
    for (const auto& p : {mine, theirs}) {
      Tensor loss = p[0].square().sum() + p[1].square().sum() + p[3].sum();
      if (step % 2 == 1) // else without a gradient on all ranks
        loss = loss + p[2].square().sum();
      loss.backward();
    }
    for (torch::optim::Optimizer* one : {static_cast<torch::optim::Optimizer*>(&sharded),
                                         static_cast<torch::optim::Optimizer*>(&whole)})
      one->param_groups()[0].options().set_lr(0.1 / (step + 1));
    sharded.step();
    whole.step();
    whole.zero_grad();
  }
  for (std::size_t i = 0; i < mine.size(); ++i)
    expectClose(mine[i], theirs[i]);
}

TEST(ShardedOptimizer, OneRanksParameterHasAMeanWithZeros) {
  const auto group = ranks();
  const int n = group->size();
  const Tensor a = torch::ones({70}).requires_grad_(), b = torch::ones({70}).requires_grad_();
  const Tensor c = torch::ones({70}).requires_grad_(), d = torch::ones({70}).requires_grad_();
  DataParallel parallel(std::vector<NamedParameter>{{"a", a}, {"b", b}}, group, {.sharded = true});
  ShardedOptimizer sharded(parallel, std::vector<Tensor>{a, b}, toyOptions());
  torch::optim::AdamW whole({c, d}, toyOptions());
  for (int step = 0; step < 3; ++step) {
    Tensor loss = a.square().sum();
    if (group->rank() == n - 1)
      loss = loss + b.square().sum() * n;
    loss.backward();
    (c.square().sum() + d.square().sum()).backward();
    sharded.step();
    whole.step();
    whole.zero_grad();
  }
  EXPECT_TRUE(at::allclose(a, c, 1e-6, 0));
  EXPECT_TRUE(at::allclose(b, d, 1e-6, 0));
}

/// a, of bf16 and updated in parts, stays b, of fp32 and updated as a whole, but for a rounding.
void expectRounded(const Tensor& a, ShardedOptimizer& sharded, const Tensor& b, int steps) {
  torch::optim::AdamW whole({b}, AdamWOptions(1e-3));
  for (int step = 0; step < steps; ++step) {
    (a * 2).sum().backward();
    (b * 2).sum().backward();
    sharded.step();
    whole.step();
    whole.zero_grad();
  }
  EXPECT_TRUE(at::equal(a, b.to(at::kBFloat16)));
}

TEST(ShardedOptimizer, LowPrecisionHasMasters) {
  const auto group = ranks();
  const Tensor a = torch::full({333}, 3.0).to(at::kBFloat16).requires_grad_();
  const Tensor b = torch::full({333}, 3.0).requires_grad_();
  DataParallel parallel(std::vector<NamedParameter>{{"a", a}}, group, {.sharded = true});
  ShardedOptimizer sharded(parallel, std::vector<Tensor>{a}, AdamWOptions(1e-3));
  expectRounded(a, sharded, b, 20); // by steps that bf16 alone would not see
  EXPECT_LT(a[0].item<float>(), 2.99);
}

TEST(ShardedOptimizer, BeginsWithMastersThatStandAlone) {
  const auto group = ranks();
  const Tensor start = torch::linspace(1, 2, 333);
  const Tensor a = start.to(at::kBFloat16).requires_grad_();
  const Tensor b = start.clone().requires_grad_();
  DataParallel parallel(std::vector<NamedParameter>{{"a", a}}, group, {.sharded = true});
  ShardedOptimizer sharded(parallel, std::vector<Tensor>{a}, AdamWOptions(1e-3));
  sharded.restore({{"master.a", start}});
  expectRounded(a, sharded, b, 3);
  const auto state = sharded.state();
  for (const auto& [name, numbers] : state)
    EXPECT_TRUE(name != "master.a" || at::equal(numbers, b));
  EXPECT_EQ(state.size(), group->rank() == 0 ? 4 : 0);
}

TEST(ShardedOptimizer, AccumulatesInNoSyncAndRefusesElse) {
  const auto group = ranks();
  auto model = toy<ToyModel>(), alone = toy<ToyModel>();
  DataParallel parallel(*model, group, {.sharded = true});
  ShardedOptimizer sharded(parallel, trainable(*model), toyOptions());
  torch::optim::AdamW whole(trainable(*alone), toyOptions());
  for (int step = 0; step < 3; ++step) {
    const Tensor x = torch::randn({8, 10}), y = torch::randn({8, 10});
    {
      const auto quiet = parallel.noSync();
      model->forward(x).square().sum().backward();
    }
    model->forward(y).square().sum().backward();
    alone->forward(x).square().sum().backward();
    alone->forward(y).square().sum().backward();
    sharded.step();
    whole.step();
    whole.zero_grad();
  }
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    expectClose(model->parameters()[i], alone->parameters()[i]);
  model->forward(torch::ones({1, 10})).sum().backward();
  EXPECT_THROW(model->forward(torch::ones({1, 10})).sum().backward(), Error);
}

} // namespace kiln::dist
