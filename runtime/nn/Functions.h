// Fused functions that modules share: one for each set of numbers that is traced into it.
#pragma once

#include "kiln/fuse.h"
#include "runtime/Table.h"

#include <bit>

namespace kiln::nn {

/// What is compiled in: an epsilon, a probability.
struct Numbers {
  std::array<double, 3> values{};
  friend bool operator==(const Numbers&, const Numbers&) = default;
  std::uint64_t hash() const {
    return runtime::hashOf(std::bit_cast<std::array<std::uint64_t, 3>>(values));
  }
};

struct SharedFunction {
  Numbers key;
  FusedFunction function;
};

/// `f`: what kiln::fuse takes. Made at the first call for these numbers; found without a lock.
template <typename F>
const FusedFunction& shared(const char* name, const Numbers& numbers, const F& f) {
  static auto* known = new runtime::Table<Numbers, SharedFunction>; // one of each type of function
  return known
      ->findOrMake(numbers,
                   [&] {
                     FuseOptions options;
                     options.name = name;
                     return std::make_unique<SharedFunction>(
                         SharedFunction{numbers, fuse(f, options).untyped()});
                   })
      .function;
}

template <typename... Tensors>
std::vector<at::Tensor> call(const FusedFunction& function, const Tensors&... tensors) {
  const at::Tensor* const operands[] = {&tensors...};
  return function.call(operands);
}

} // namespace kiln::nn
