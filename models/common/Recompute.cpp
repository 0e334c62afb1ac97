// See Recompute.h.
#include "models/common/Recompute.h"

#include "models/common/Draw.h"
#include "models/common/Precision.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace kiln::models {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

at::Generator generatorOf(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

struct Recomputed : torch::autograd::Function<Recomputed> {
  /// What the backward needs besides tensors.
  struct Kept : torch::CustomClassHolder {
    Step step;
    std::int64_t inputs; // of the step: the first of what is saved
    Tensor random;       // the generator's state, undefined if nothing is drawn
    Autocast::State autocast;
  };

  static variable_list forward(AutogradContext* context, const Step& step, std::int64_t inputs,
                               Draws draws, at::TensorList saved) {
    auto kept = c10::make_intrusive<Kept>();
    const at::Device device = saved[0].device();
    kept->step = step;
    kept->inputs = inputs;
    if (draws == Draws::numbers)
      kept->random = generatorOf(device).get_state();
    kept->autocast = Autocast::current(device.type());
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(saved.vec());
    return step(saved.slice(0, std::size_t(inputs)).vec()); // no gradients, as all of a forward
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*capsule);
    variable_list saved = context->get_saved_variables();
    for (std::int64_t i = 0; i < kept.inputs; ++i)
      saved[i] = saved[i].detach().requires_grad_(saved[i].requires_grad());
    variable_list y;
    {
      const at::AutoGradMode on(true);
      std::optional<KeptRandom> now;
      if (kept.random.defined()) {
        now.emplace(saved[0].device());
        generatorOf(saved[0].device()).set_state(kept.random); // of the forward
      }
      const Autocast autocast(saved[0].device().type(), kept.autocast);
      y = kept.step({saved.begin(), saved.begin() + kept.inputs});
    }
    variable_list wanted;
    for (const Tensor& input : saved)
      if (input.requires_grad())
        wanted.push_back(input);
    const variable_list found =
        torch::autograd::grad(y, wanted, gradients, /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
    variable_list all = {Tensor(), Tensor(), Tensor()}; // of the step, the count, the draws
    auto next = found.begin();
    for (const Tensor& input : saved)
      all.push_back(input.requires_grad() ? *next++ : Tensor());
    return all;
  }
};

} // namespace

Tensors recomputed(const Step& step, const Tensors& inputs, const Tensors& parameters,
                   Draws draws) {
  Tensors all = inputs;
  all.insert(all.end(), parameters.begin(), parameters.end());
  return Recomputed::apply(step, std::int64_t(inputs.size()), draws, at::TensorList(all));
}

} // namespace kiln::models
