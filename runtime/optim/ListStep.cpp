// See ListStep.h.
#include "runtime/optim/ListStep.h"

#include "runtime/optim/ListProgram.h"
#include "runtime/optim/Texts.h"

#include <ATen/ops/select.h>
#include <algorithm>
#include <c10/core/DeviceGuard.h>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

namespace kiln::optim {

namespace {

/// Places of the numbers that launches share, in floats; rates of the groups come last.
constexpr std::int64_t kMaxNorm = 0, kOne = 1, kNorm = 2, kFactor = 3, kSums = 4;
constexpr std::int64_t kCounters = kSums + 3, kRates = kCounters + std::int64_t(kMaxKinds);

/// What the programs are made for; learning rates are not among it.
bool isLike(const Group& a, const Group& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.eps == b.eps && a.decay == b.decay;
}

using Field = at::Tensor Entry::*;

} // namespace

/// One program and the tensors it is launched on.
struct ListStep::Part {
  std::shared_ptr<const ListProgram> program;
  std::vector<std::size_t> entries;
  std::vector<Field> inputs, outputs;     // its lists
  std::vector<Buffer> numbers, results{}; // its numbers
  // Filled and refilled by refresh().
  std::vector<const void*> pointers{};
  std::optional<TensorLists> lists{};
  at::Tensor table{}; // undefined: on no device yet
  std::vector<Buffer> arguments{};
};

struct ListStep::Plan {
  struct Identity {
    const void* param;
    std::int64_t length;
    Kind kind;
    bool operator==(const Identity&) const = default;
  };
  std::vector<Identity> identities;
  std::vector<Group> groups; // with the rates that the device has
  const void* unscale = nullptr;
  std::vector<std::int64_t> counts; // a counter each, as it was when the plan was made
  std::int64_t advanced = 0;        // since then
  at::Tensor numbers, workspace;
  std::vector<Part> parts;

  Buffer number(std::int64_t place) const {
    return {static_cast<float*>(numbers.data_ptr()) + place, {}, {}};
  }
  std::int64_t counterOf(const Kind& kind) const {
    return std::ranges::find(counts, kind.steps) - counts.begin();
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

void ListStep::addNorms(Plan& plan, const StepOf& step) const {
  std::map<DType, std::vector<std::size_t>> lists;
  for (std::size_t i = 0; i < step.entries.size(); ++i)
    lists[plan.identities[i].kind.grad].push_back(i);
  std::int64_t sum = kSums;
  for (auto& [dtype, entries] : lists) {
    NormText text{.grad = dtype,
                  .first = sum == kSums,
                  .last = plan.parts.size() + 1 == lists.size(),
                  .unscales = step.unscale.defined(),
                  .counters = static_cast<int>(plan.counts.size())};
    Part part{listProgram(text.text(), "norm", backend, device.index()),
              std::move(entries),
              {&Entry::grad},
              {},
              {}};
    if (!text.first)
      part.numbers.push_back(plan.number(sum - 1));
    part.results.push_back(plan.number(sum++));
    if (text.last) {
      part.numbers.push_back(plan.number(kMaxNorm));
      if (text.unscales)
        part.numbers.push_back({step.unscale.data_ptr(), {}, {}});
      part.results.push_back(plan.number(kNorm));
      part.results.push_back(plan.number(kFactor));
      for (int i = 0; i < text.counters; ++i) {
        part.numbers.push_back(plan.number(kCounters + i));
        part.results.push_back(plan.number(kCounters + i));
      }
    }
    plan.parts.push_back(std::move(part));
  }
}

void ListStep::addUpdates(Plan& plan, const StepOf& step) const {
  std::map<Kind, std::vector<std::size_t>> lists;
  std::map<std::int64_t, Kind> last; // that reads a counter
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    const Kind& kind = plan.identities[i].kind;
    lists[kind].push_back(i);
    auto [found, isNew] = last.emplace(kind.steps, kind);
    if (!isNew)
      found->second = std::max(found->second, kind);
  }
  for (auto& [kind, entries] : lists) {
    const Group& group = step.groups[kind.group];
    const bool counted = step.maxNorm > 0; // by the norm
    UpdateText text{.grad = kind.grad,
                    .copy = kind.copy,
                    .beta1 = group.beta1,
                    .beta2 = group.beta2,
                    .eps = group.eps,
                    .decay = group.decay,
                    .emaDecay = step.emaDecay,
                    .counted = counted,
                    .advances = !counted && last.at(kind.steps) == kind};
    Part part{listProgram(text.text(), "adamw", backend, device.index()),
              std::move(entries),
              {&Entry::param, &Entry::grad, &Entry::expAvg, &Entry::expAvgSq},
              {&Entry::param, &Entry::expAvg, &Entry::expAvgSq},
              {}};
    if (text.copy)
      part.outputs.push_back(&Entry::copy);
    if (text.emaDecay > 0) {
      part.inputs.push_back(&Entry::ema);
      part.outputs.push_back(&Entry::ema);
    }
    const Buffer count = plan.number(kCounters + plan.counterOf(kind));
    const Buffer given =
        step.unscale.defined() ? Buffer{step.unscale.data_ptr(), {}, {}} : plan.number(kOne);
    part.numbers = {plan.number(kRates + kind.group), count,
                    counted ? plan.number(kFactor) : given};
    if (text.advances)
      part.results.push_back(count);
    plan.parts.push_back(std::move(part));
  }
}

/// Copies bytes to `there`, if it is given, behind what is enqueued. A graph copies at each replay.
at::Tensor ListStep::upload(std::span<const std::byte> bytes, at::Tensor there) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (!there.defined())
    there = at::Tensor(backend.empty({size}, at::kByte, device));
  if (size == 0)
    return there;
  if (device.is_cpu()) {
    std::memcpy(there.data_ptr(), bytes.data(), bytes.size());
    return there;
  }
  const at::Tensor pinned(backend.pinned(size));
  std::memcpy(pinned.data_ptr(), bytes.data(), bytes.size());
  there.copy_(pinned, /*non_blocking=*/true);
  if (isCapturing())
    kept.push_back(std::make_shared<at::Tensor>(pinned));
  return there;
}

/// A graph gets tables of its own: those of later steps may say something else.
void ListStep::refresh(Part& part, const StepOf& step) {
  std::vector<const void*> pointers;
  std::vector<TensorList> inputs, outputs;
  auto visit = [&](const std::vector<Field>& fields, auto&& take) {
    for (std::size_t f = 0; f < fields.size(); ++f)
      for (std::size_t entry : part.entries)
        take(f, step.entries[entry].*fields[f]);
  };
  auto point = [&](std::size_t, const at::Tensor& tensor) {
    pointers.push_back(tensor.data_ptr());
  };
  visit(part.inputs, point);
  visit(part.outputs, point);
  if (pointers == part.pointers && !isCapturing())
    return;
  auto listed = [](std::vector<TensorList>& lists) {
    return [&](std::size_t f, const at::Tensor& tensor) {
      lists[f].push_back({tensor.data_ptr(), {tensor.numel()}, {}});
    };
  };
  inputs.resize(part.inputs.size());
  outputs.resize(part.outputs.size());
  visit(part.inputs, listed(inputs));
  visit(part.outputs, listed(outputs));
  part.pointers = std::move(pointers);
  const ListsInfo& info = part.program->lists();
  if (!part.lists) {
    part.lists.emplace(info, inputs, outputs);
  } else {
    const auto moved = part.lists->relocate(info, inputs, outputs);
    const auto bytes = static_cast<std::int64_t>(moved.size());
    if (part.table.defined() && !isCapturing()) {
      upload(moved, part.table.narrow(0, part.table.numel() - bytes, bytes));
      return;
    }
  }
  part.table = upload(part.lists->table());
  part.arguments = part.lists->inputs(part.table.data_ptr(), part.numbers);
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
  auto next = std::make_shared<Plan>();
  next->groups = step.groups;
  next->unscale = step.unscale.defined() ? step.unscale.data_ptr() : nullptr;
  next->counts = countsOf(step);
  for (const Entry& entry : step.entries)
    next->identities.push_back(
        {entry.param.unsafeGetTensorImpl(), entry.param.numel(), kindOf(entry)});
  std::vector<float> numbers(static_cast<std::size_t>(kRates) + step.groups.size(), 0.0F);
  numbers[kMaxNorm] = static_cast<float>(step.maxNorm);
  numbers[kOne] = 1.0F;
  for (std::size_t i = 0; i < next->counts.size(); ++i)
    numbers[kCounters + i] = static_cast<float>(next->counts[i]);
  for (std::size_t i = 0; i < step.groups.size(); ++i)
    numbers[kRates + i] = static_cast<float>(step.groups[i].lr);
  next->numbers = upload(std::as_bytes(std::span(numbers))).view(at::kFloat);
  if (step.maxNorm > 0)
    addNorms(*next, step);
  addUpdates(*next, step);
  std::size_t bytes = 0;
  for (Part& part : next->parts) {
    refresh(part, step);
    bytes = std::max(bytes, part.program->workspaceBytes(part.arguments));
  }
  if (bytes > 0)
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
    upload(std::as_bytes(std::span(&rate, 1)),
           plan->numbers.view(at::kByte).narrow(
               0, (kRates + static_cast<std::int64_t>(i)) * std::int64_t(sizeof(float)),
               sizeof(float)));
  }
}

void ListStep::run(const StepOf& step) {
  const c10::OptionalDeviceGuard guard(device);
  setRates(step.groups);
  for (Part& part : plan->parts) {
    refresh(part, step);
    part.program->launch(part.arguments, part.results,
                         plan->workspace.defined() ? plan->workspace.data_ptr() : nullptr);
    if (isCapturing()) {
      kept.push_back(std::make_shared<at::Tensor>(std::move(part.table)));
      part.table.reset();
      part.pointers.clear();
    }
  }
  if (isCapturing())
    captured = true;
  else
    ++plan->advanced;
}

std::vector<std::pair<const void*, std::int64_t>> ListStep::readSteps() {
  std::vector<std::pair<const void*, std::int64_t>> steps;
  if (!plan)
    return steps;
  const at::Tensor numbers = plan->numbers.cpu();
  const float* counts = numbers.const_data_ptr<float>() + kCounters;
  // Replays advance all counters alike.
  plan->advanced = static_cast<std::int64_t>(counts[0]) - plan->counts[0];
  for (const Plan::Identity& identity : plan->identities)
    steps.emplace_back(identity.param,
                       static_cast<std::int64_t>(counts[plan->counterOf(identity.kind)]));
  return steps;
}

at::Tensor ListStep::norm() const {
  return plan ? plan->numbers.select(0, kNorm) : at::Tensor();
}

std::size_t ListStep::launches() const {
  std::size_t kernels = 0;
  for (const Part& part : plan->parts)
    kernels += part.program->kernels();
  return kernels;
}

} // namespace kiln::optim
