// Fused functions that modules share: one for each set of numbers that is traced into it.
#pragma once

#include "kiln/fuse.h"

#include <map>
#include <mutex>

namespace kiln::nn {

/// `f`: what kiln::fuse takes. Made at the first call for these numbers.
template <typename F>
FusedFunction shared(const char* name, const std::vector<double>& numbers, const F& f) {
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<std::vector<double>, Place>, FusedFunction>;
  FuseOptions options;
  options.name = name;
  std::lock_guard held(mutex);
  auto found = known->find({numbers, options.place});
  if (found == known->end())
    found = known->emplace(std::pair(numbers, options.place), fuse(f, options).untyped()).first;
  return found->second;
}

template <typename... Tensors>
std::vector<at::Tensor> call(const FusedFunction& function, const Tensors&... tensors) {
  const at::Tensor* const operands[] = {&tensors...};
  return function.call(operands);
}

} // namespace kiln::nn
