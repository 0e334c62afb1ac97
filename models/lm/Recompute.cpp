// See Recompute.h.
#include "models/lm/Recompute.h"

#include "models/lm/Precision.h"

namespace kiln::lm {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

at::Generator generatorOf(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

/// The generator's state of an earlier moment, for a scope.
class Replay {
 public:
  Replay(at::Device device, const Tensor& state)
      : generator(generatorOf(device)), now(generator.get_state()) {
    generator.set_state(state);
  }
  ~Replay() { generator.set_state(now); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  at::Generator generator;
  Tensor now;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  /// What the backward needs besides tensors.
  struct Kept : torch::CustomClassHolder {
    Step step;
    Tensor random;
    Autocast::State autocast;
  };

  static Tensor forward(AutogradContext* context, const Step& step, const Tensor& x,
                        at::TensorList parameters) {
    auto kept = c10::make_intrusive<Kept>();
    kept->step = step;
    kept->random = generatorOf(x.device()).get_state();
    kept->autocast = Autocast::current(x.device().type());
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    variable_list saved = {x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    return step(x); // without gradients, as all of a forward
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*capsule);
    variable_list inputs = context->get_saved_variables();
    inputs[0] = inputs[0].detach().requires_grad_(inputs[0].requires_grad());
    Tensor y;
    {
      const at::AutoGradMode on(true);
      const Replay random(inputs[0].device(), kept.random);
      const Autocast autocast(inputs[0].device().type(), kept.autocast);
      y = kept.step(inputs[0]);
    }
    variable_list wanted;
    for (const Tensor& input : inputs)
      if (input.requires_grad())
        wanted.push_back(input);
    const variable_list found = torch::autograd::grad(
        {y}, wanted, {gradients[0]}, /*retain_graph=*/false, /*create_graph=*/false,
        /*allow_unused=*/true);
    variable_list all = {Tensor()}; // of the step
    auto next = found.begin();
    for (const Tensor& input : inputs)
      all.push_back(input.requires_grad() ? *next++ : Tensor());
    return all;
  }
};

} // namespace

Tensor recomputed(const Step& step, const Tensor& x, const std::vector<Tensor>& parameters) {
  return Recomputed::apply(step, x, at::TensorList(parameters));
}

} // namespace kiln::lm
