// What gradients have in common that routed ops make themselves: at the autograd and autocast
// layers an op's result is given a node, which calls a route of Layer::gradient.
#pragma once

#include "runtime/Given.h"
#include "runtime/Plain.h"
#include "runtime/Router.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

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

} // namespace kiln::runtime
