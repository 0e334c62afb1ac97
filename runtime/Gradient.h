// What gradients have in common that routed ops make themselves: at the autograd and autocast
// layers an op's result is given a node, which calls a route of Layer::gradient.
#pragma once

#include "runtime/Plain.h"
#include "runtime/Router.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace kiln::runtime {

/// The gradient by Op, from what the node has kept. Whoever differentiates twice, or many gradients
/// at once, does so through the dispatcher: then by Op's formula of ATen's operations.
template <typename Op>
auto gradientBy(const at::Tensor& grad, const at::Tensor& kept, const auto&... args) {
  if (at::GradMode::is_enabled() || whyNotPlain(grad) || whyNotPlain(kept))
    return Op::natives.cpu(grad, kept, args...); // the same for both places
  const at::AutoDispatchBelowADInplaceOrView below;
  return callRouted<Op>(kept, grad, kept, args...);
}

/// What a node has kept of the caller's, where ATen keeps a copy that it has anyway. Whoever has
/// written into it since is told whose doing it is that he may not: `family` as in Options::ops.
inline at::Tensor unpackGiven(const torch::autograd::SavedVariable& given, const char* family) {
  try {
    return given.unpack();
  } catch (c10::Error& error) {
    if (std::string_view(error.what_without_backtrace()).find("modified by an inplace operation") !=
        std::string_view::npos)
      error.add_context(c10::str(
          "Kiln's ", family,
          " keeps its operands for the backward as they were given, where ATen "
          "keeps a copy in fp32. Write into another tensor (x = x + y, not x += y), or leave the "
          "op to ATen: KILN_OPS=-",
          family, ", or a kiln::Guard around its call"));
    throw;
  }
}

} // namespace kiln::runtime
