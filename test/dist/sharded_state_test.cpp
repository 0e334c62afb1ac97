// States of an optimizer in parts: saved whole or in parts, taken back by any number of ranks.
#include "test/Errors.h"
#include "test/dist/ShardedRun.h"

#include <sstream>

namespace kiln::dist {

namespace {

using at::Tensor;

void copyParameters(const torch::nn::Module& from, torch::nn::Module& to) {
  const torch::NoGradGuard constant;
  for (std::size_t i = 0; i < from.parameters().size(); ++i)
    to.parameters()[i].copy_(from.parameters()[i]);
}

std::string textOf(const std::vector<NamedParameter>& state) {
  std::string names;
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : state) {
    names += name + '\n';
    tensors.push_back(tensor);
  }
  std::ostringstream stream;
  torch::save(tensors, stream);
  return std::to_string(names.size()) + ' ' + names + stream.str();
}

std::vector<NamedParameter> stateIn(const std::string& text) {
  std::size_t digits = 0;
  const std::size_t length = std::stoul(text, &digits);
  std::istringstream names(text.substr(digits + 1, length)),
      stream(text.substr(digits + 1 + length));
  std::vector<Tensor> tensors;
  torch::load(tensors, stream);
  std::vector<NamedParameter> state;
  for (const Tensor& one : tensors) {
    std::string name;
    std::getline(names, name);
    state.push_back({name, one});
  }
  return state;
}

/// The parts of all ranks, in their order.
std::vector<NamedParameter> partsOf(ShardedRun& run) {
  std::vector<NamedParameter> all;
  for (const std::string& text : run.group->gather(textOf(run.optimizer.state(/*whole=*/false))))
    for (const auto& one : stateIn(text))
      all.push_back(one);
  return all;
}

/// What `before` saved goes on under `after` as it would have under `before`.
void expectGoesOn(ShardedRun& before, ShardedRun& after, const std::vector<NamedParameter>& state) {
  copyParameters(*before.model, *after.model);
  after.optimizer.restore(state);
  for (int step = 5; step < 8; ++step) {
    before.step(step);
    after.step(step);
  }
  for (std::size_t i = 0; i < before.model->parameters().size(); ++i)
    EXPECT_TRUE(
        at::allclose(before.model->parameters()[i], after.model->parameters()[i], 1e-5, 1e-6));
}

} // namespace

TEST(ShardedOptimizer, WholeStatesGoOnUnderAnyNumberOfRanks) {
  const auto group = ranks();
  ShardedRun many(group), one(Group::alone());
  for (int step = 0; step < 5; ++step) {
    many.step(step);
    one.step(step);
  }
  const auto ofMany = stateIn(group->gather(textOf(many.optimizer.state()))[0]);
  EXPECT_EQ(ofMany.size(), trainable(*many.model).size() * 3 - 3); // one parameter is nobody's
  ShardedRun next(Group::alone());
  expectGoesOn(many, next, ofMany);
  ShardedRun again(group);
  expectGoesOn(one, again, one.optimizer.state());
}

TEST(ShardedOptimizer, PartsGoOnUnderAnyNumberOfRanks) {
  ShardedRun many(ranks());
  for (int step = 0; step < 5; ++step)
    many.step(step);
  ShardedRun one(Group::alone());
  expectGoesOn(many, one, partsOf(many));
}

/// None waits for the rank that is to have what is missing.
TEST(ShardedOptimizer, WhatOneRankLacksAllRefuse) {
  ShardedRun run(ranks()), resumed(ranks());
  run.step(0);
  auto parts = partsOf(run);
  parts.erase(std::ranges::find_if(
      parts, [](const NamedParameter& one) { return one.name.starts_with("exp_avg."); }));
  resumed.optimizer.restore(parts);
  const std::string said = test::errorOf(ErrorKind::input, [&] { resumed.step(1); });
  EXPECT_NE(said.find("rank 0 of "), said.npos) << said;
  EXPECT_NE(said.find("the state's exp_avg has"), said.npos) << said;
}

TEST(ShardedOptimizer, GoesOnToTheBit) {
  const auto group = ranks();
  ShardedRun run(group), resumed(group);
  for (int step = 0; step < 3; ++step)
    run.step(step);
  copyParameters(*run.model, *resumed.model);
  resumed.optimizer.restore(run.optimizer.state(/*whole=*/false));
  for (int step = 3; step < 6; ++step) {
    run.step(step);
    resumed.step(step);
  }
  expectEqual(clones(*run.model), clones(*resumed.model));
}

TEST(ShardedOptimizer, RefusesWhatDoesNotFit) {
  const auto group = ranks();
  auto model = toy<ToyModel>();
  DataParallel whole(*model, group);
  EXPECT_THROW(ShardedOptimizer(whole, trainable(*model)), Error);
  ShardedRun run(group);
  run.step(0);
  EXPECT_THROW(run.optimizer.restore({{"exp_avg.fc1.weight", torch::zeros({3})}}), Error);
  EXPECT_THROW(run.optimizer.restore({{"exp_avg.fc1.weight@99", torch::zeros({2})}}), Error);
  run.optimizer.add_param_group(
      torch::optim::OptimizerParamGroup({torch::zeros({2}).requires_grad_()}));
  EXPECT_THROW(run.step(1), Error);
}

} // namespace kiln::dist
