// See ListStep.h.
#include "runtime/optim/ListStep.h"

#include "runtime/optim/ListProgram.h"
#include "runtime/optim/ListTable.h"
#include "runtime/optim/Texts.h"

#include <ATen/ops/select.h>
#include <algorithm>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <map>
#include <set>

namespace kiln::optim {

namespace {

/// Places of the numbers that launches share, in floats. Counters have two places each, of which a
/// step without a clip reads one and writes the other. Rates of the groups come last.
constexpr std::int64_t kMaxNorm = 0, kNorm = 1, kCounters = 2;
constexpr std::int64_t kRates = kCounters + 2 * std::int64_t(kMaxKinds);

/// What the program is made for; learning rates are not among it.
bool isLike(const Group& a, const Group& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.eps == b.eps && a.decay == b.decay;
}

using Field = at::Tensor Entry::*;

} // namespace

struct ListStep::Plan {
  Plan(runtime::Backend& backend, at::Device device) : table(backend, device) {}

  struct Identity {
    const void* param;
    std::int64_t length;
    Kind kind;
    bool operator==(const Identity&) const = default;
  };
  struct List {
    Field field;
    std::size_t part;
  };
  std::vector<Identity> identities;
  std::vector<Group> groups; // with the rates that the device has
  const void* unscale = nullptr;
  std::vector<std::int64_t> counts; // a counter each, as it was when the plan was made
  std::int64_t advanced = 0;        // since then
  bool clips = false;

  std::shared_ptr<const ListProgram> program;
  std::vector<std::vector<std::size_t>> parts; // entries of each
  std::vector<List> inputs, outputs;           // lists of the program
  at::Tensor numbers, workspace;
  std::vector<Buffer> given, results; // numbers of the program; counters come last in both
  ListTable table;

  Buffer number(std::int64_t place) const {
    return {static_cast<float*>(numbers.data_ptr()) + place, {}, {}};
  }
  int counterOf(const Kind& kind) const {
    return static_cast<int>(std::ranges::find(counts, kind.steps) - counts.begin());
  }
  /// Where in the numbers the counters lie that `buffers` end in.
  at::Tensor countersIn(const std::vector<Buffer>& buffers) const {
    const auto count = static_cast<std::int64_t>(counts.size());
    const auto* first = static_cast<const float*>((buffers.end() - count)->data);
    return numbers.narrow(0, first - numbers.const_data_ptr<float>(), count);
  }
};

static std::vector<std::int64_t> countsOf(const StepOf& step) {
  std::set<std::int64_t> counts;
  for (const Entry& entry : step.entries)
    counts.insert(entry.steps);
  return {counts.begin(), counts.end()};
}

bool ListStep::fits(const StepOf& step) const {
  if (!plan || plan->identities.size() != step.entries.size() ||
      plan->groups.size() != step.groups.size() ||
      plan->unscale != (step.unscale.defined() ? step.unscale.data_ptr() : nullptr))
    return false;
  for (std::size_t i = 0; i < step.groups.size(); ++i)
    if (!isLike(plan->groups[i], step.groups[i]))
      return false;
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    const Entry& entry = step.entries[i];
    Kind kind = kindOf(entry);
    kind.steps -= plan->advanced;
    if (plan->identities[i] !=
        Plan::Identity{entry.param.unsafeGetTensorImpl(), entry.param.numel(), kind})
      return false;
  }
  return true;
}

/// The program: a part for each kind of parameter.
void ListStep::addProgram(Plan& plan, const StepOf& step) const {
  std::map<Kind, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < step.entries.size(); ++i)
    kinds[plan.identities[i].kind].push_back(i);
  StepText text{.rates = static_cast<int>(step.groups.size()),
                .counters = static_cast<int>(plan.counts.size()),
                .clips = plan.clips,
                .unscales = step.unscale.defined(),
                .emaDecay = step.emaDecay};
  for (auto& [kind, entries] : kinds) {
    const Group& group = step.groups[kind.group];
    text.parts.push_back({.grad = kind.grad,
                          .copy = kind.copy,
                          .beta1 = group.beta1,
                          .beta2 = group.beta2,
                          .eps = group.eps,
                          .decay = group.decay,
                          .rate = static_cast<int>(kind.group),
                          .counter = plan.counterOf(kind)});
    const std::size_t part = plan.parts.size();
    for (Field field : {&Entry::param, &Entry::grad, &Entry::expAvg, &Entry::expAvgSq})
      plan.inputs.push_back({field, part});
    for (Field field : {&Entry::param, &Entry::expAvg, &Entry::expAvgSq})
      plan.outputs.push_back({field, part});
    if (kind.copy)
      plan.outputs.push_back({&Entry::copy, part});
    if (step.emaDecay > 0) {
      plan.inputs.push_back({&Entry::ema, part});
      plan.outputs.push_back({&Entry::ema, part});
    }
    plan.parts.push_back(std::move(entries));
  }
  plan.program = listProgram(text.text(), "adamw", backend, device.index());
}

/// What the program takes and returns beside lists.
void ListStep::addNumbers(Plan& plan, const StepOf& step) {
  std::vector<float> numbers(static_cast<std::size_t>(kRates) + step.groups.size(), 0.0F);
  numbers[kMaxNorm] = static_cast<float>(step.maxNorm);
  for (std::size_t i = 0; i < plan.counts.size(); ++i)
    numbers[kCounters + i] = static_cast<float>(plan.counts[i]);
  for (std::size_t i = 0; i < step.groups.size(); ++i)
    numbers[kRates + i] = static_cast<float>(step.groups[i].lr);
  plan.numbers = plan.table.upload(std::as_bytes(std::span(numbers))).view(at::kFloat);
  if (plan.clips) {
    plan.given.push_back(plan.number(kMaxNorm));
    plan.results.push_back(plan.number(kNorm));
  }
  if (step.unscale.defined())
    plan.given.push_back({step.unscale.data_ptr(), {}, {}});
  for (std::size_t i = 0; i < step.groups.size(); ++i)
    plan.given.push_back(plan.number(kRates + static_cast<std::int64_t>(i)));
  const std::int64_t next = plan.clips ? kCounters : kCounters + std::int64_t(kMaxKinds);
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    plan.given.push_back(plan.number(kCounters + static_cast<std::int64_t>(i)));
    plan.results.push_back(plan.number(next + static_cast<std::int64_t>(i)));
  }
}

/// Says where tensors lie, if they have moved.
void ListStep::refresh(Plan& plan, const StepOf& step) {
  std::vector<const void*> pointers;
  auto visit = [&](const std::vector<Plan::List>& lists, auto&& take) {
    for (std::size_t i = 0; i < lists.size(); ++i)
      for (std::size_t entry : plan.parts[lists[i].part])
        take(i, step.entries[entry].*lists[i].field);
  };
  auto point = [&](std::size_t, const at::Tensor& tensor) {
    pointers.push_back(tensor.data_ptr());
  };
  visit(plan.inputs, point);
  visit(plan.outputs, point);
  if (plan.table.liesAt(pointers))
    return;
  auto listed = [](std::vector<TensorList>& lists) {
    return [&](std::size_t i, const at::Tensor& tensor) { lists[i].push_back(entryOf(tensor)); };
  };
  std::vector<TensorList> inputs(plan.inputs.size()), outputs(plan.outputs.size());
  visit(plan.inputs, listed(inputs));
  visit(plan.outputs, listed(outputs));
  plan.table.locate(std::move(pointers), plan.program->lists(), inputs, outputs, plan.given);
}

void ListStep::prepare(const StepOf& step) {
  const c10::OptionalDeviceGuard guard(device);
  if (isCapturing())
    throw Error(ErrorKind::input,
                fmt::format("AdamW: the first step with these {} parameters and options is being "
                            "captured into a graph; take one step before the capture, in which the "
                            "same parameters have gradients of the same dtypes",
                            step.entries.size()));
  if (captured)
    kept.push_back(plan);
  auto next = std::make_shared<Plan>(backend, device);
  next->groups = step.groups;
  next->unscale = step.unscale.defined() ? step.unscale.data_ptr() : nullptr;
  next->counts = countsOf(step);
  for (const Entry& entry : step.entries)
    next->identities.push_back(
        {entry.param.unsafeGetTensorImpl(), entry.param.numel(), kindOf(entry)});
  next->clips = step.maxNorm > 0;
  addProgram(*next, step);
  addNumbers(*next, step);
  refresh(*next, step);
  if (const std::size_t bytes = next->program->workspaceBytes(next->table.arguments))
    next->workspace =
        at::Tensor(backend.empty({static_cast<std::int64_t>(bytes)}, at::kByte, device));
  plan = std::move(next);
}

void ListStep::setRates(const std::vector<Group>& groups) {
  for (std::size_t i = 0; plan && i < plan->groups.size() && i < groups.size(); ++i) {
    double& known = plan->groups[i].lr;
    if (known == groups[i].lr)
      continue;
    if (isCapturing())
      throw Error(ErrorKind::input,
                  fmt::format("AdamW: the learning rate of group {} changed from {} to {} while a "
                              "graph is being captured, which would keep it; call updateRates() "
                              "before the capture, and before replays",
                              i, known, groups[i].lr));
    const c10::OptionalDeviceGuard guard(device);
    known = groups[i].lr;
    const auto rate = static_cast<float>(known);
    plan->table.upload(std::as_bytes(std::span(&rate, 1)),
                       plan->numbers.view(at::kByte).narrow(
                           0, (kRates + static_cast<std::int64_t>(i)) * std::int64_t(sizeof(float)),
                           sizeof(float)));
  }
}

void ListStep::run(const StepOf& step) {
  const c10::OptionalDeviceGuard guard(device);
  setRates(step.groups);
  refresh(*plan, step);
  plan->program->launch(plan->table.arguments, plan->results,
                        plan->workspace.defined() ? plan->workspace.data_ptr() : nullptr);
  captured |= isCapturing();
  advance(*plan);
  plan->table.launched();
  if (!isCapturing())
    ++plan->advanced;
}

/// Where a clip does not advance the counters in their place, the next step reads them where this
/// one wrote them. A graph cannot take turns: it copies them back, and so do all steps beside it.
void ListStep::advance(Plan& plan) const {
  if (plan.clips)
    return;
  if (captured) {
    plan.countersIn(plan.given).copy_(plan.countersIn(plan.results), /*non_blocking=*/true);
    return;
  }
  for (std::size_t i = plan.given.size() - plan.counts.size(), r = 0; i < plan.given.size(); ++i) {
    std::swap(plan.given[i].data, plan.results[r++].data);
    plan.table.arguments[i].data = plan.given[i].data;
  }
}

std::vector<std::pair<const void*, std::int64_t>> ListStep::readSteps() {
  std::vector<std::pair<const void*, std::int64_t>> steps;
  if (!plan)
    return steps;
  const at::Tensor counters = plan->countersIn(plan->given).cpu();
  const float* counts = counters.const_data_ptr<float>();
  // Replays advance all counters alike.
  plan->advanced = static_cast<std::int64_t>(counts[0]) - plan->counts[0];
  for (const Plan::Identity& identity : plan->identities)
    steps.emplace_back(identity.param,
                       static_cast<std::int64_t>(counts[plan->counterOf(identity.kind)]));
  return steps;
}

void ListStep::forget() {
  if (captured)
    kept.push_back(plan);
  plan.reset();
  captured = false;
}

at::Tensor ListStep::norm() const {
  return plan ? plan->numbers.select(0, kNorm) : at::Tensor();
}

std::size_t ListStep::launches() const {
  return plan->program->launches();
}

} // namespace kiln::optim
