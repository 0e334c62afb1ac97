// See StructureModule.h.
#include "models/alphafold/model/StructureModule.h"

#include "models/alphafold/model/AllAtom.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kiln::alphafold {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

constexpr double unit = 10; // angstrom: frames are in these while they are moved

/// With single elements dropped.
Tensor dropped(const Tensor& s, double share, bool training) {
  return share > 0 ? at::dropout(s, share, training) : s;
}

/// The derivative of a direction grows as a vector shrinks: by the formula's own to 1e6.
struct Directions : torch::autograd::Function<Directions> {
  static Tensor forward(AutogradContext* context, const Tensor& raw) {
    const Tensor length = at::sqrt(raw.square().sum(-1, /*keepdim=*/true).clamp_min(1e-12));
    const Tensor directions = raw / length;
    context->save_for_backward({directions, length});
    return directions;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &directions = saved[0], &length = saved[1], &given = gradients[0];
    const Tensor along = (given * directions).sum(-1, /*keepdim=*/true);
    return {(given - along * directions) / length.clamp_min(1 / steepest)};
  }
};

} // namespace

Tensor directionsOf(const Tensor& raw) {
  return Directions::apply(raw);
}

StructureTransitionImpl::StructureTransitionImpl(std::int64_t channels, double dropout)
    : share(dropout) {
  const auto layer = std::make_shared<torch::nn::Module>();
  first = layer->register_module("linear_1", Linear(channels, channels, Init::he));
  second = layer->register_module("linear_2", Linear(channels, channels, Init::he));
  third = layer->register_module("linear_3", Linear(channels, channels, Init::zero));
  register_module("layers", torch::nn::ModuleList(layer));
  norm = register_module("layer_norm", LayerNorm(channels));
}

Tensor StructureTransitionImpl::forward(const Tensor& s) {
  const Tensor moved = s + third(at::relu(second(at::relu(first(s)))));
  return norm(dropped(moved, share, is_training()));
}

BackboneUpdateImpl::BackboneUpdateImpl(std::int64_t channels)
    : linear(register_module("linear", Linear(channels, 6, Init::zero))) {}

Rigid BackboneUpdateImpl::forward(const Tensor& s, const Rigid& frames) {
  return frames.updated(linear(s));
}

TorsionBlockImpl::TorsionBlockImpl(std::int64_t channels)
    : first(register_module("linear_1", Linear(channels, channels, Init::he))),
      second(register_module("linear_2", Linear(channels, channels, Init::zero))) {}

Tensor TorsionBlockImpl::forward(const Tensor& s) {
  return s + second(at::relu(first(at::relu(s))));
}

TorsionResnetImpl::TorsionResnetImpl(const ModelConfig& config)
    : in(register_module("linear_in", Linear(config.single, config.resnet))),
      initialIn(register_module("linear_initial", Linear(config.single, config.resnet))),
      layers(register_module("layers", torch::nn::ModuleList())) {
  for (std::int64_t i = 0; i < config.resnetBlocks; ++i)
    layers->push_back(TorsionBlock(config.resnet));
  out = register_module("linear_out", Linear(config.resnet, 14));
}

Tensor TorsionResnetImpl::forward(const Tensor& s, const Tensor& initial) {
  Tensor x = in(at::relu(s)) + initialIn(at::relu(initial));
  for (const auto& layer : *layers)
    x = layer->as<TorsionBlock>()->forward(x);
  return out(at::relu(x)).unflatten(-1, {7, 2});
}

StructureModuleImpl::StructureModuleImpl(const ModelConfig& config)
    : layers(config.structureLayers), share(config.structureDropout),
      normS(register_module("layer_norm_s", LayerNorm(config.single))),
      normZ(register_module("layer_norm_z", LayerNorm(config.pair))),
      in(register_module("linear_in", Linear(config.single, config.single))),
      ipa(register_module("ipa", InvariantPointAttention(config))),
      normIpa(register_module("layer_norm_ipa", LayerNorm(config.single))),
      transition(register_module("transition", StructureTransition(config.single, share))),
      update(register_module("bb_update", BackboneUpdate(config.single))),
      torsions(register_module("angle_resnet", TorsionResnet(config))) {}

PredictedStructure StructureModuleImpl::forward(const Tensor& sGiven, const Tensor& zGiven,
                                                const Tensor& aatype, const Tensor& mask) {
  const FullPrecision exact(sGiven);
  const Tensor initial = normS(full(sGiven)), z = normZ(full(zGiven)), there = full(mask);
  Tensor s = in(initial);
  Rigid frames = Rigid::identity(s.sizes().slice(0, 1), s);
  PredictedStructure found;
  std::vector<Tensor> states;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    s = normIpa(dropped(s + ipa(s, z, frames, there), share, is_training()));
    s = transition(s);
    frames = update(s, frames);
    found.backbones.push_back(frames.scaled(unit));
    states.push_back(s);
    frames = frames.detachedRotation(); // no gradient through what later layers turn
  }
  found.rawAngles = torsions(at::stack(states), initial); // no layer reads another's
  found.angles = directionsOf(found.rawAngles);
  found.groups = groupFrames(found.backbones.back(), found.angles[-1], aatype);
  found.positions = atomPositions(found.groups, aatype);
  found.single = s;
  return found;
}

} // namespace kiln::alphafold
