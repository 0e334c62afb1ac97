// See Optimizer.h. States are torch::optim::AdamW's, whichever optimizer keeps them.
#include "models/common/Optimizer.h"

#include "kiln/torch.h"
#include "models/common/Fail.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <limits>
#include <torch/optim/adamw.h>

namespace kiln::models {

using at::Tensor;

namespace {

using State = torch::optim::AdamWParamState;

std::vector<torch::optim::OptimizerParamGroup> groupsOf(const std::vector<NamedTensor>& parameters,
                                                        const UpdateOptions& options) {
  std::vector<Tensor> matrices, gains;
  for (const NamedTensor& one : parameters)
    (one.tensor.dim() > 1 ? matrices : gains).push_back(one.tensor);
  const auto group = [&](std::vector<Tensor> tensors, double decay) {
    auto chosen = std::make_unique<torch::optim::AdamWOptions>(options.learningRate);
    chosen->betas({options.beta1, options.beta2}).eps(options.eps).weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(tensors), std::move(chosen));
  };
  return {group(std::move(matrices), options.weightDecay), group(std::move(gains), 0)};
}

} // namespace

Updater::Updater(torch::nn::Module& model, const UpdateOptions& options)
    : model(model), parameters(parametersOf(model)), limit(options.clip) {
  const auto groups = groupsOf(parameters, options);
  if (!options.kiln) {
    optimizer = std::make_unique<torch::optim::AdamW>(groups);
    return;
  }
  // Without a limit the norm is still asked for, by steps' logs.
  const optim::AdamWExtras extras{.maxGradNorm =
                                      limit > 0 ? limit : std::numeric_limits<double>::infinity()};
  auto made = std::make_unique<optim::AdamW>(groups, torch::optim::AdamWOptions(), extras);
  byKiln = made.get();
  optimizer = std::move(made);
}

Updater::Updater(torch::nn::Module& model, const UpdateOptions& options,
                 dist::DataParallel& parallel, const std::vector<NamedTensor>& masters)
    : model(model), parameters(parametersOf(model)), limit(options.clip) {
  auto made = std::make_unique<dist::ShardedOptimizer>(
      parallel, groupsOf(parameters, options), torch::optim::AdamWOptions(),
      dist::ShardedOptions{.maxGradNorm = limit, .gather = dist::Gather::whenNeeded});
  std::vector<dist::NamedParameter> begin;
  for (const auto& [name, numbers] : masters)
    begin.push_back({"master." + name, numbers});
  made->restore(begin);
  divided = made.get();
  optimizer = std::move(made);
}

void Updater::need(const torch::nn::Module& part) {
  if (divided)
    divided->need(part);
}

void Updater::bindCopy(const Tensor& weight, const Tensor& copy) {
  byKiln->bindCopy(weight, copy);
}

Tensor Updater::copyOf(const Tensor& parameter) const {
  return byKiln ? byKiln->copyOf(parameter) : Tensor();
}

void Updater::collect() {
  const at::NoGradGuard constant;
  for (const NamedTensor& one : parameters) {
    const Tensor copy = copyOf(one.tensor);
    if (!copy.defined() || !copy.grad().defined())
      continue;
    Tensor& sum = one.tensor.mutable_grad();
    if (sum.defined())
      sum.add_(copy.grad());
    else
      sum = copy.grad().to(one.tensor.scalar_type());
    copy.mutable_grad().reset();
  }
}

void Updater::clear() {
  if (byKiln)
    byKiln->zero_grad();
  else if (divided)
    divided->zero_grad();
  else
    optimizer->zero_grad();
}

/// torch's clip_grad_norm_ waits for the device; this does not.
Tensor Updater::clipped() {
  const at::NoGradGuard constant;
  std::vector<Tensor> gradients;
  for (const NamedTensor& one : parameters) {
    const Tensor copy = copyOf(one.tensor);
    const bool isOfCopy = !one.tensor.grad().defined() && copy.defined();
    if (const Tensor& gradient = isOfCopy ? copy.grad() : one.tensor.grad(); gradient.defined())
      gradients.push_back(gradient);
  }
  const Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  if (limit > 0)
    at::_foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp_max(1));
  return norm;
}

Tensor Updater::step(double learningRate) {
  const bool clipsItself = divided || byKiln;
  Tensor norm = clipsItself ? Tensor() : clipped();
  for (auto& group : optimizer->param_groups())
    group.options().set_lr(learningRate);
  optimizer->step();
  if (clipsItself)
    norm = divided ? divided->gradNorm() : byKiln->gradNorm();
  clear();
  return norm;
}

bool Updater::canBeCaptured() const {
  return divided ? divided->canBeCaptured() : byKiln && byKiln->launches() > 0;
}

void Updater::setRate(double learningRate) {
  if (!canBeCaptured())
    fail(ErrorKind::unavailable,
         "--graphs: Kiln's AdamW did not compute the last step, and LibTorch's cannot be captured; "
         "the report says why: {}",
         kiln::report());
  for (auto& group : optimizer->param_groups())
    group.options().set_lr(learningRate);
  if (divided)
    divided->prepareReplay();
  else
    byKiln->updateRates();
}

std::vector<NamedTensor> Updater::dividedState() {
  divided->need(model);
  std::vector<NamedTensor> all;
  std::map<std::string, Tensor> masters;
  const std::string master = "master.";
  for (const auto& [name, tensor] : divided->state())
    if (name.starts_with(master))
      masters[name.substr(master.size())] = tensor;
    else
      all.push_back({"optimizer." + name, tensor});
  for (const auto& [name, parameter] : parameters)
    all.push_back({name, masters.contains(name) ? masters[name] : parameter});
  return all;
}

std::vector<NamedTensor> Updater::state() {
  if (divided)
    return dividedState();
  if (wasReplayed)
    byKiln->readSteps();
  std::vector<NamedTensor> all = parameters;
  for (const auto& [name, parameter] : parameters) {
    const auto found = optimizer->state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer->state().end())
      continue; // never updated
    const auto& state = static_cast<const State&>(*found->second);
    all.push_back({"optimizer.exp_avg." + name, state.exp_avg()});
    all.push_back({"optimizer.exp_avg_sq." + name, state.exp_avg_sq()});
    all.push_back({"optimizer.step." + name, at::scalar_tensor(state.step(), at::kLong)});
  }
  return all;
}

void Updater::restoreDivided(const Safetensors& from) {
  divided->need(model); // or what is on its way would be written over what is read
  std::vector<dist::NamedParameter> state;
  for (const auto& [name, parameter] : parameters) {
    Tensor numbers = parameter;
    if (at::isReducedFloatingType(parameter.scalar_type())) {
      numbers = at::empty(parameter.sizes(), parameter.options().dtype(at::kFloat));
      state.push_back({"master." + name, numbers});
    }
    from.read(name, numbers);
    parameter.copy_(numbers);
    if (from.contains("optimizer.step." + name))
      for (const std::string kind : {"exp_avg.", "exp_avg_sq.", "step."})
        state.push_back({kind + name, from.tensor("optimizer." + kind + name)});
  }
  divided->restore(state);
}

void Updater::restore(const Safetensors& from) {
  const at::NoGradGuard constant;
  wasReplayed = false;
  if (divided)
    return restoreDivided(from);
  optimizer->state().clear();
  readParameters(from, model);
  for (const auto& [name, parameter] : parameters) {
    if (!from.contains("optimizer.step." + name))
      continue;
    Tensor average = at::empty_like(parameter), square = at::empty_like(parameter),
           step = at::empty({}, at::kLong);
    from.read("optimizer.exp_avg." + name, average);
    from.read("optimizer.exp_avg_sq." + name, square);
    from.read("optimizer.step." + name, step);
    auto state = std::make_unique<State>();
    state->exp_avg(average);
    state->exp_avg_sq(square);
    state->step(step.item<std::int64_t>());
    optimizer->state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
  if (byKiln) {
    byKiln->writeSteps();
    byKiln->refreshCopies();
  }
}

} // namespace kiln::models
