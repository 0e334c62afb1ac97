// See Casts.h.
#include "models/alphafold/model/Casts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <mutex>

namespace kiln::alphafold {

using at::Tensor;

namespace {

std::mutex mutex; // of what follows: backwards run on threads of their own
Casts* current = nullptr;

} // namespace

std::vector<Tensor> besideEachOther(at::TensorList like, at::ScalarType type) {
  constexpr std::int64_t step = 16; // bytes
  const std::int64_t unit = step / std::int64_t(c10::elementSize(type));
  const auto padded = [&](const Tensor& tensor) {
    return (tensor.numel() + unit - 1) / unit * unit;
  };
  std::int64_t count = 0;
  for (const Tensor& tensor : like)
    count += padded(tensor);
  const Tensor memory = at::empty({count}, like[0].options().dtype(type).requires_grad(false));
  std::vector<Tensor> all;
  std::int64_t from = 0;
  for (const Tensor& tensor : like) {
    all.push_back(memory.narrow(0, from, tensor.numel()).view(tensor.sizes()));
    from += padded(tensor);
  }
  return all;
}

Casts::Scope::Scope(Casts& casts) : casts(casts) {
  casts.refresh();
  const std::lock_guard held(mutex);
  TORCH_CHECK(!current, "one scope of casts at a time");
  current = &casts;
}

Casts::Scope::~Scope() {
  {
    const std::lock_guard held(mutex);
    current = nullptr;
  }
  casts.allocate();
}

const std::vector<Tensor>* Casts::find(at::TensorList parameters, at::ScalarType type) {
  const std::lock_guard held(mutex);
  if (!current)
    return nullptr;
  Key key = {reinterpret_cast<const void*>(std::uintptr_t(type))};
  for (const Tensor& parameter : parameters)
    key.push_back(parameter.unsafeGetTensorImpl());
  const auto [found, isNew] = current->all.try_emplace(std::move(key));
  if (isNew)
    found->second = {.from = parameters.vec(), .to = {}, .type = type};
  return found->second.to.empty() ? nullptr : &found->second.to;
}

void Casts::refresh() {
  const at::NoGradGuard constant;
  std::vector<Tensor> from, to;
  for (const auto& [key, kept] : all) {
    from.insert(from.end(), kept.from.begin(), kept.from.end());
    to.insert(to.end(), kept.to.begin(), kept.to.end());
  }
  if (!to.empty())
    at::_foreach_copy_(to, from);
}

void Casts::allocate() {
  const at::NoGradGuard constant;
  for (auto& [key, kept] : all)
    if (kept.to.empty())
      kept.to = besideEachOther(kept.from, kept.type);
}

} // namespace kiln::alphafold
