// See Stream.h.
#include "models/alphafold/model/Stream.h"

#include "kiln/fuse.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace kiln::alphafold {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

std::optional<Tensor> ifDefined(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

Tensor scaled(const Tensor& x, const Tensor& scale) {
  static const auto product =
      fuse([](const Expr& x, const Expr& scale) { return scale * x; }, {.name = "dropped"});
  return scale.defined() ? product(x, scale) : x;
}

struct Added : torch::autograd::Function<Added> {
  static Tensor forward(AutogradContext* context, const Tensor& stream, const Tensor& update,
                        const Tensor& scale) {
    static const auto sum = fuse([](const Expr& stream, const Expr& update,
                                    const Expr& scale) { return stream + scale * update; },
                                 {.name = "add_dropped"});
    context->save_for_backward({scale});
    context->saved_data["update"] = update.scalar_type();
    return sum(stream, update, scale).to(stream.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& given = gradients[0];
    if (!given.defined())
      return variable_list(3);
    const Tensor scale = context->get_saved_variables()[0];
    return {given, scaled(given, scale).to(context->saved_data["update"].toScalarType()), Tensor()};
  }
};

struct AddedGated : torch::autograd::Function<AddedGated> {
  static Tensor forward(AutogradContext* context, const Tensor& stream, const Tensor& gate,
                        const Tensor& update, const std::optional<Tensor>& given) {
    static const auto sum = fuse([](const Expr& stream, const Expr& gate,
                                    const Expr& update) { return stream + sigmoid(gate) * update; },
                                 {.name = "add_gated"});
    static const auto dropped =
        fuse([](const Expr& stream, const Expr& gate, const Expr& update,
                const Expr& scale) { return stream + scale * (sigmoid(gate) * update); },
             {.name = "add_gated_dropped"});
    const Tensor scale = given.value_or(Tensor());
    context->save_for_backward({gate, update, scale});
    return (scale.defined() ? dropped(stream, gate, update, scale) : sum(stream, gate, update))
        .to(stream.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto both =
        fuse([](const Expr& given, const Expr& gate,
                const Expr& update) { return gradientsOf(given, gate, update); },
             {.name = "add_gated_backward"});
    static const auto dropped =
        fuse([](const Expr& given, const Expr& gate, const Expr& update,
                const Expr& scale) { return gradientsOf(scale * given, gate, update); },
             {.name = "add_gated_dropped_backward"});
    const Tensor& given = gradients[0];
    if (!given.defined())
      return variable_list(4);
    const variable_list saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &update = saved[1], &scale = saved[2];
    const auto [ofGate, ofUpdate] =
        scale.defined() ? dropped(given, gate, update, scale) : both(given, gate, update);
    return {given, ofGate.to(gate.scalar_type()), ofUpdate.to(update.scalar_type()), Tensor()};
  }

 private:
  static std::array<Expr, 2> gradientsOf(const Expr& given, const Expr& gate, const Expr& update) {
    const Expr open = sigmoid(gate), ofUpdate = given * open;
    return {ofUpdate * (1 - open) * update, ofUpdate};
  }
};

struct AddedBiased : torch::autograd::Function<AddedBiased> {
  static Tensor forward(AutogradContext* context, const Tensor& stream, const Tensor& update,
                        const Tensor& bias, const Tensor& scale) {
    static const auto sum = fuse([](const Expr& stream, const Expr& update, const Expr& bias,
                                    const Expr& scale) { return stream + scale * (update + bias); },
                                 {.name = "add_biased"});
    context->save_for_backward({scale});
    context->saved_data["update"] = update.scalar_type();
    context->saved_data["bias"] = bias.scalar_type();
    return sum(stream, update, bias, scale).to(stream.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& given = gradients[0];
    if (!given.defined())
      return variable_list(4);
    const Tensor ofUpdate = scaled(given, context->get_saved_variables()[0])
                                .to(context->saved_data["update"].toScalarType());
    return {given, ofUpdate,
            ofUpdate.flatten(0, -2).sum(0, /*keepdim=*/false,
                                        context->saved_data["bias"].toScalarType()),
            Tensor()};
  }
};

} // namespace

Tensor added(const Tensor& stream, const Tensor& update, const Tensor& scale) {
  return scale.defined() ? Added::apply(stream, update, scale) : stream + update;
}

Tensor addedGated(const Tensor& stream, const Tensor& gate, const Tensor& update,
                  const Tensor& scale) {
  return AddedGated::apply(stream, gate, update, ifDefined(scale));
}

Tensor addedBiased(const Tensor& stream, const Tensor& update, const Tensor& bias,
                   const Tensor& scale) {
  return AddedBiased::apply(stream, update, bias, scale);
}

} // namespace kiln::alphafold
