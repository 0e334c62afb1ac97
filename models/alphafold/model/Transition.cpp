// See Transition.h.
#include "models/alphafold/model/Transition.h"

#include "models/alphafold/model/Products.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kiln::alphafold {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

/// Both products and the ReLU between, which the first one computes before it stores.
struct TwoLayers : torch::autograd::Function<TwoLayers> {
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& up,
                        const Tensor& upBias, const Tensor& down, const Tensor& downBias) {
    const at::ScalarType type = productType(given);
    const Tensor x = given.to(type).reshape({-1, given.size(-1)});
    const std::vector<Tensor> read = cast({up, upBias, down, downBias}, type);
    const Tensor hidden =
        at::_addmm_activation(read[1], x, read[0].t(), /*beta=*/1, /*alpha=*/1, /*use_gelu=*/false);
    context->save_for_backward({x, hidden, read[0], read[2]});
    context->saved_data["given"] = given.scalar_type();
    context->saved_data["parameters"] = up.scalar_type();
    return at::addmm(read[3], hidden, read[2].t()).view(given.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& given = gradients[0];
    if (!given.defined())
      return variable_list(5);
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &hidden = saved[1], &up = saved[2], &down = saved[3];
    const at::ScalarType type = context->saved_data["parameters"].toScalarType();
    const Tensor y = given.reshape({-1, given.size(-1)});
    Tensor before = at::mm(y, down);
    at::threshold_backward_out(before, before, hidden, 0);
    return {at::mm(before, up).view(given.sizes()).to(context->saved_data["given"].toScalarType()),
            product(before.t(), x, type), before.sum(0, /*keepdim=*/false, type),
            product(y.t(), hidden, type), y.sum(0, /*keepdim=*/false, type)};
  }
};

} // namespace

TransitionImpl::TransitionImpl(std::int64_t channels, std::int64_t factor)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      up(register_module("linear_1", Linear(channels, factor * channels, Init::he))),
      down(register_module("linear_2", Linear(factor * channels, channels, Init::zero))) {}

Tensor TransitionImpl::forward(const Tensor& x) {
  return TwoLayers::apply(norm(x), up->weight, up->bias, down->weight, down->bias);
}

} // namespace kiln::alphafold
