// See Unit.h.
#include "runtime/dist/Unit.h"
#include "runtime/dist/Fail.h"
#include "runtime/dist/Pieces.h"

#include <ATen/ATen.h>

namespace kiln::dist {

using at::Tensor;

Unit::Share Unit::shareOf(const Slot& slot) const {
  const std::int64_t begin = group->rank() * master.numel();
  const auto [from, to] = meeting(slot, begin, master.numel());
  if (from == to)
    return {master.slice(0, 0, 0), 0};
  return {sharing(master, from - begin, {to - from}, {1}), from - slot.offset};
}

Unit::Unit(const std::vector<NamedParameter>& parameters, std::shared_ptr<Group> ranks,
           std::optional<at::ScalarType> compute)
    : group(std::move(ranks)) {
  const at::NoGradGuard constant;
  std::vector<Slot*> slots;
  for (const NamedParameter& one : parameters)
    slots.push_back(&all.emplace_back(Slot{.parameter = one}));
  gradients =
      std::make_unique<Bucket>(slots, group, DataParallelOptions{.sharded = true}, at::kFloat);
  const std::int64_t each = gradients->elements() / group->size();
  const auto fp32 = gradients->shard().options();
  full = at::zeros({gradients->elements()}, fp32.dtype(compute.value_or(at::kFloat)));
  mine = at::empty({each}, full.options());
  master = at::zeros({each}, fp32);
  gradient = at::zeros({each}, fp32);
  for (Slot& slot : all) {
    const Tensor flat = flatOf(slot.tensor().detach(), slot.tensor());
    if (auto [part, first] = shareOf(slot); part.numel() > 0) {
      part.copy_(flat.slice(0, first, first + part.numel()));
      parts.push_back({fmt::format("{}@{}", slot.parameter.name, first),
                       part.requires_grad_(slot.tensor().requires_grad())});
    }
    Tensor(slot.tensor())
        .set_data(sharing(full, slot.offset, slot.view.sizes(), slot.view.strides()));
  }
  gradients->freeMemory();
  free();
}

void Unit::gather() {
  if (isHere || pending)
    return;
  const at::NoGradGuard constant;
  takeMemory(full);
  mine.copy_(master);
  pending = group->allGather(full, mine);
  isHere = group->size() == 1;
}

void Unit::wait() {
  gather();
  pending.wait();
  isHere = true;
}

void Unit::free() {
  if (pending)
    pending.wait();
  giveMemory(full);
  isHere = false;
}

void Unit::send() {
  const at::NoGradGuard constant;
  gradients->fill();
  gradients->start();
  gradients->release();
  sent = true;
}

void Unit::take() {
  const at::NoGradGuard constant;
  gradients->finish();
  gradients->freeMemory();
  sent = false;
  bool isFirst = true; // none of an earlier backward
  for (const NamedParameter& part : parts)
    isFirst = isFirst && !part.tensor.grad().defined();
  if (isFirst)
    gradient.copy_(gradients->shard());
  else
    gradient.add_(gradients->shard());
  for (const NamedParameter& part : parts)
    if (part.tensor.requires_grad())
      part.tensor.mutable_grad() =
          sharing(gradient, part.tensor.storage_offset(), part.tensor.sizes(), {1});
}

std::vector<NamedParameter> Unit::whole() {
  const at::NoGradGuard constant;
  const Tensor everything = at::empty({gradients->elements()}, master.options());
  group->allGather(everything, master).wait();
  std::vector<NamedParameter> named;
  for (const Slot& slot : all)
    named.push_back(
        {slot.parameter.name,
         everything.as_strided(slot.view.sizes(), slot.view.strides(), slot.offset).clone()});
  return named;
}

void Unit::load(const NamedParameter& given) {
  const at::NoGradGuard constant;
  for (const Slot& slot : all) {
    if (slot.parameter.name != given.name)
      continue;
    const auto [part, first] = shareOf(slot);
    part.copy_(flatOf(given.tensor, slot.tensor()).slice(0, first, first + part.numel()));
  }
}

} // namespace kiln::dist
