// See Casts.h.
#include "models/common/Casts.h"

#include "models/common/Products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <mutex>

namespace kiln::models {

using at::Tensor;

namespace {

std::mutex mutex; // of what follows: backwards run on threads of their own
Casts* current = nullptr;

} // namespace

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

} // namespace kiln::models
