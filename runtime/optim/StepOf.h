// What one step of an optimizer is about: parameters with their gradients and state, as gathered
// from torch's groups; and which of them one launch takes.
#pragma once

#include "kiln/kiln.h"

#include <ATen/core/Tensor.h>

#include <compare>
#include <optional>
#include <vector>

namespace kiln::optim {

/// A parameter that has a gradient. `copy` and `ema` may be undefined.
struct Entry {
  at::Tensor param, grad{}, expAvg{}, expAvgSq{}, copy{}, ema{};
  unsigned group = 0;
  std::int64_t steps = 0; // that are done
};

struct Group {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, decay = 0;
};

struct StepOf {
  std::vector<Group> groups{};
  std::vector<Entry> entries{};
  double maxNorm = 0, emaDecay = 0; // 0: neither clipped nor averaged
  at::Tensor unscale{};             // may be undefined
};

/// Parameters of one kind are a part of the program over lists, which may have so many.
struct Kind {
  unsigned group;
  DType grad;
  std::optional<DType> copy;
  std::int64_t steps;
  auto operator<=>(const Kind&) const = default;
};
constexpr std::size_t kMaxKinds = 16;

Kind kindOf(const Entry& entry); // of one that whyNotByLists() has nothing against

/// Whether two tensors have their elements at the same places.
bool liesLike(const at::Tensor& a, const at::Tensor& b);
/// Why kernels over lists cannot take a step; null if they can.
const char* whyNotByLists(const StepOf& step);

} // namespace kiln::optim
