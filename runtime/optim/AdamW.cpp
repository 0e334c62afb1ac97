// kiln::optim::AdamW: gathers what has a gradient and lets Kiln's kernels over lists, or else
// torch, take the step.
#include "kiln/optim.h"

#include "runtime/Backend.h"
#include "runtime/Policy.h"
#include "runtime/optim/ByTorch.h"
#include "runtime/optim/Ledger.h"
#include "runtime/optim/ListStep.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/serialize/archive.h>
#include <unordered_map>

namespace kiln::optim {

using torch::optim::AdamWParamState;
using Options = torch::optim::AdamWOptions;

struct AdamW::Impl {
  AdamWExtras extras;
  std::unordered_map<const void*, at::Tensor> copies{}, emas{}; // by parameter
  std::unique_ptr<ListStep> lists{};
  at::Device device = at::kCPU; // of lists
  std::string failure{};        // why kernels cannot be made, once that is known
  at::Tensor norm{};
  std::size_t launches = 0;

  at::Tensor find(const std::unordered_map<const void*, at::Tensor>& tensors,
                  const at::Tensor& parameter) const {
    const auto found = tensors.find(parameter.unsafeGetTensorImpl());
    return found == tensors.end() ? at::Tensor() : found->second;
  }
  StepOf gather(AdamW& optimizer);
  std::string whyByTorch(const AdamW& optimizer, const StepOf& step) const;
  void addState(AdamW& optimizer, StepOf& step);
  std::string prepareLists(AdamW& optimizer, StepOf& step);
  void stepByLists(AdamW& optimizer, const StepOf& step);
  void stepByTorch(AdamW& optimizer, const StepOf& step, const std::string& why);
};

namespace {

AdamWParamState* stateOf(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr
                                          : static_cast<AdamWParamState*>(found->second.get());
}

std::string describe(const Entry& entry) {
  return fmt::format("[{}] {}", fmt::join(entry.param.sizes(), ", "),
                     c10::toString(entry.param.scalar_type()));
}

void checkExtras(const AdamWExtras& extras) {
  if (!(extras.maxGradNorm >= 0))
    throw Error(ErrorKind::input, fmt::format("AdamW: maxGradNorm = {}; allowed are numbers of 0 "
                                              "or more, 0 for no clip",
                                              extras.maxGradNorm));
  if (!(extras.emaDecay >= 0 && extras.emaDecay < 1))
    throw Error(ErrorKind::input,
                fmt::format("AdamW: emaDecay = {}; allowed are 0, for no average, "
                            "and numbers between 0 and 1",
                            extras.emaDecay));
}

} // namespace

/// All parameters with a gradient. A gradient that lies otherwise than its parameter is copied.
StepOf AdamW::Impl::gather(AdamW& optimizer) {
  StepOf step{
      .maxNorm = extras.maxGradNorm, .emaDecay = extras.emaDecay, .unscale = extras.unscale};
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    const auto [beta1, beta2] = options.betas();
    for (const at::Tensor& param : group.params()) {
      Entry entry{.param = param, .grad = param.grad(), .copy = find(copies, param)};
      if (!entry.grad.defined() && entry.copy.defined())
        entry.grad = entry.copy.grad();
      if (!entry.grad.defined())
        continue;
      if (entry.grad.layout() != at::kStrided)
        throw Error(
            ErrorKind::input,
            fmt::format("AdamW: the gradient of a parameter {} is sparse; AdamW takes dense "
                        "ones: call to_dense() on it, or take an embedding with sparse(false)",
                        describe(entry)));
      if (!liesLike(entry.grad, param) && param.is_non_overlapping_and_dense())
        entry.grad = at::empty_like(param, param.options().dtype(entry.grad.scalar_type()))
                         .copy_(entry.grad);
      entry.group = static_cast<unsigned>(step.groups.size());
      if (const AdamWParamState* state = stateOf(optimizer, param)) {
        entry.steps = state->step();
        entry.expAvg = state->exp_avg();
        entry.expAvgSq = state->exp_avg_sq();
      }
      if (extras.emaDecay > 0) {
        at::Tensor& ema = emas[param.unsafeGetTensorImpl()];
        if (!ema.defined())
          ema = param.detach().clone();
        entry.ema = ema;
      }
      step.entries.push_back(std::move(entry));
    }
    step.groups.push_back({options.lr(), beta1, beta2, options.eps(), options.weight_decay()});
  }
  return step;
}

std::string AdamW::Impl::whyByTorch(const AdamW& optimizer, const StepOf& step) const {
  const at::Device where = step.entries.front().param.device();
  if (!where.is_cuda() && !where.is_cpu())
    return fmt::format("parameters on {}", where.str());
  const Place place = runtime::placeOf(where);
  if (!runtime::currentPolicy().computesLists(place))
    return "Kiln is not enabled there";
  for (const auto& group : optimizer.param_groups())
    if (static_cast<const Options&>(group.options()).amsgrad())
      return "amsgrad";
  if (const char* why = whyNotByLists(step))
    return why;
  if (std::string why = runtime::backendOf(place).whyNot(); !why.empty())
    return why;
  return failure;
}

void AdamW::Impl::addState(AdamW& optimizer, StepOf& step) {
  for (Entry& entry : step.entries) {
    if (entry.expAvg.defined())
      continue;
    auto state = std::make_unique<AdamWParamState>();
    state->step(0);
    state->exp_avg(entry.expAvg = at::zeros_like(entry.param));
    state->exp_avg_sq(entry.expAvgSq = at::zeros_like(entry.param));
    optimizer.state()[entry.param.unsafeGetTensorImpl()] = std::move(state);
  }
}

/// Makes what the step needs, or says why it cannot be made, now and later.
std::string AdamW::Impl::prepareLists(AdamW& optimizer, StepOf& step) {
  const at::Device where = step.entries.front().param.device();
  if (!lists || where != device) {
    lists = std::make_unique<ListStep>(runtime::backendOf(runtime::placeOf(where)), where);
    device = where;
  }
  if (lists->fits(step))
    return "";
  if (lists->wasCaptured() && !lists->isCapturing()) {
    optimizer.readSteps();
    for (Entry& entry : step.entries)
      if (const AdamWParamState* state = stateOf(optimizer, entry.param))
        entry.steps = state->step();
  }
  if (!lists->isCapturing()) // in a capture zeros would be written at each replay
    addState(optimizer, step);
  try {
    lists->prepare(step);
    return "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input)
      throw;
    return failure = error.what();
  }
}

void AdamW::Impl::stepByLists(AdamW& optimizer, const StepOf& step) {
  lists->run(step);
  launches = lists->launches();
  countByLists();
  norm = extras.maxGradNorm > 0 ? lists->norm() : at::Tensor();
  for (const Entry& entry : step.entries) { // so that autograd notices what has changed
    entry.param.unsafeGetTensorImpl()->bump_version();
    if (entry.copy.defined())
      entry.copy.unsafeGetTensorImpl()->bump_version();
    if (!lists->isCapturing()) { // then nothing has happened yet
      AdamWParamState& state = *stateOf(optimizer, entry.param);
      state.step(state.step() + 1);
    }
  }
}

void AdamW::Impl::stepByTorch(AdamW& optimizer, const StepOf& step, const std::string& why) {
  countByTorch(why, describe(step.entries.front()));
  launches = 0;
  if (lists && lists->wasCaptured())
    optimizer.readSteps();
  {
    const PreparedGradients gradients(step);
    norm = gradients.norm;
    optimizer.torch::optim::AdamW::step();
  }
  writeCopies(step);
}

AdamW::AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups,
             const torch::optim::AdamWOptions& defaults, const AdamWExtras& extras)
    : torch::optim::AdamW(groups, defaults), impl_(new Impl{.extras = extras}) {
  checkExtras(extras);
  const at::NoGradGuard noGrad;
  if (extras.copies)
    for (const auto& group : param_groups())
      for (const at::Tensor& param : group.params())
        bindCopy(param, at::empty_like(param, param.options().dtype(*extras.copies)).copy_(param));
}

AdamW::AdamW(std::vector<at::Tensor> parameters, const torch::optim::AdamWOptions& defaults,
             const AdamWExtras& extras)
    : AdamW(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, defaults,
            extras) {}

AdamW::~AdamW() = default;

at::Tensor AdamW::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode withGrad(true);
    loss = closure();
  }
  RECORD_USER_SCOPE("Optimizer.step#AdamW.step"); // as Python's profiler names it
  const at::NoGradGuard noGrad;
  StepOf step = impl_->gather(*this);
  if (step.entries.empty())
    return loss;
  std::string why = impl_->whyByTorch(*this, step);
  if (why.empty())
    why = impl_->prepareLists(*this, step);
  if (why.empty())
    impl_->stepByLists(*this, step);
  else
    impl_->stepByTorch(*this, step, why);
  return loss;
}

// NOLINTNEXTLINE(readability-identifier-naming)
void AdamW::zero_grad(bool set_to_none) {
  torch::optim::AdamW::zero_grad(set_to_none);
  for (auto& [parameter, copy] : impl_->copies)
    if (copy.grad().defined()) {
      if (set_to_none)
        copy.mutable_grad().reset();
      else
        copy.mutable_grad().detach_().zero_();
    }
}

at::Tensor AdamW::gradNorm() const {
  return impl_->norm;
}

std::size_t AdamW::launches() const {
  return impl_->launches;
}

void AdamW::bindCopy(const at::Tensor& parameter, at::Tensor copy) {
  if (copy.scalar_type() != at::kBFloat16 && copy.scalar_type() != at::kHalf)
    throw Error(ErrorKind::input,
                fmt::format("AdamW: a copy of dtype {}; allowed are bf16 and fp16",
                            c10::toString(copy.scalar_type())));
  if (copy.sizes() != parameter.sizes())
    throw Error(ErrorKind::input,
                fmt::format("AdamW: a copy of sizes [{}] for a parameter of [{}]; they are equal",
                            fmt::join(copy.sizes(), ", "), fmt::join(parameter.sizes(), ", ")));
  impl_->copies[parameter.unsafeGetTensorImpl()] = std::move(copy);
}

void AdamW::refreshCopies() {
  const at::NoGradGuard noGrad;
  for (const auto& group : param_groups())
    for (const at::Tensor& param : group.params())
      if (const at::Tensor copy = copyOf(param); copy.defined())
        copy.copy_(param);
}

at::Tensor AdamW::copyOf(const at::Tensor& parameter) const {
  return impl_->find(impl_->copies, parameter);
}
at::Tensor AdamW::emaOf(const at::Tensor& parameter) const {
  return impl_->find(impl_->emas, parameter);
}

void AdamW::updateRates() {
  std::vector<Group> groups;
  for (const auto& group : param_groups())
    groups.push_back({.lr = static_cast<const Options&>(group.options()).lr()});
  if (impl_->lists)
    impl_->lists->setRates(groups);
}

void AdamW::readSteps() {
  if (!impl_->lists)
    return;
  for (auto [parameter, steps] : impl_->lists->readSteps())
    if (const auto found = state().find(const_cast<void*>(parameter)); found != state().end())
      static_cast<AdamWParamState&>(*found->second).step(steps);
}

void AdamW::writeSteps() {
  if (impl_->lists)
    impl_->lists->forget();
}

namespace {
constexpr const char* kAverages = "kiln_ema";
} // namespace

void AdamW::save(torch::serialize::OutputArchive& archive) const {
  if (impl_->lists && impl_->lists->wasCaptured())
    const_cast<AdamW*>(this)->readSteps(); // what the device counted; the state's meaning stays
  torch::optim::AdamW::save(archive);
  if (impl_->emas.empty())
    return;
  torch::serialize::OutputArchive averages(archive.compilation_unit());
  std::size_t index = 0;
  for (const auto& group : param_groups())
    for (const at::Tensor& param : group.params()) {
      if (const at::Tensor ema = emaOf(param); ema.defined())
        averages.write(std::to_string(index), ema, /*is_buffer=*/true);
      ++index;
    }
  archive.write(kAverages, averages);
}

void AdamW::load(torch::serialize::InputArchive& archive) {
  torch::optim::AdamW::load(archive);
  writeSteps();
  impl_->emas.clear();
  torch::serialize::InputArchive averages;
  if (!archive.try_read(kAverages, averages))
    return;
  std::size_t index = 0;
  for (const auto& group : param_groups())
    for (const at::Tensor& param : group.params()) {
      if (at::Tensor ema; averages.try_read(std::to_string(index++), ema, /*is_buffer=*/true))
        impl_->emas[param.unsafeGetTensorImpl()] = ema;
    }
}

} // namespace kiln::optim
