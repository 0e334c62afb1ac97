// See Transition.h.
#include "models/alphafold/model/Transition.h"

#include "kiln/fuse.h"
#include "models/common/Products.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kiln::alphafold {

using at::Tensor;
using models::cast;
using models::product;
using models::productType;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

/// Both products, the last without its bias, and the ReLU between, which the first one computes
/// before it stores.
struct TwoLayers : torch::autograd::Function<TwoLayers> {
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& up,
                        const Tensor& upBias, const Tensor& down) {
    const at::ScalarType type = productType(given);
    const Tensor x = given.to(type).reshape({-1, given.size(-1)});
    const std::vector<Tensor> read = cast({up, upBias, down}, type);
    const Tensor hidden =
        at::_addmm_activation(read[1], x, read[0].t(), /*beta=*/1, /*alpha=*/1, /*use_gelu=*/false);
    context->save_for_backward({x, hidden, read[0], read[2]});
    context->saved_data["given"] = given.scalar_type();
    context->saved_data["parameters"] = up.scalar_type();
    return at::mm(hidden, read[2].t()).view(given.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto throughReLU = fuse(
        [](const Expr& gradient, const Expr& hidden) {
          const Expr through = where(hidden > 0, gradient, 0);
          return std::array{through, kiln::columnSums(through)};
        },
        {.name = "relu_backward"});
    const Tensor& given = gradients[0];
    if (!given.defined())
      return variable_list(4);
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &hidden = saved[1], &up = saved[2], &down = saved[3];
    const at::ScalarType type = context->saved_data["parameters"].toScalarType();
    const Tensor y = given.reshape({-1, given.size(-1)});
    const auto [before, ofUpBias] = throughReLU(at::mm(y, down), hidden);
    return {at::mm(before, up).view(given.sizes()).to(context->saved_data["given"].toScalarType()),
            product(before.t(), x, type), ofUpBias.view(-1).to(type), product(y.t(), hidden, type)};
  }
};

} // namespace

TransitionImpl::TransitionImpl(std::int64_t channels, std::int64_t factor)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      up(register_module("linear_1", Linear(channels, factor * channels, Init::he))),
      down(register_module("linear_2", Linear(factor * channels, channels, Init::zero))) {}

Update TransitionImpl::update(const Tensor& normed) {
  return {TwoLayers::apply(normed, up->weight, up->bias, down->weight), down->bias};
}

} // namespace kiln::alphafold
