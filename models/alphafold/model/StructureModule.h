// From single and pair representations to atoms: frames that start at the origin and are moved
// layer by layer, and torsion angles. Algorithms 20 and 23.
#pragma once

#include "models/alphafold/model/InvariantPointAttention.h"

namespace kiln::alphafold {

/// Lines 8 and 9 of Algorithm 20. Parameters: layers.0.linear_1 to linear_3, layer_norm.
struct StructureTransitionImpl : torch::nn::Module {
  StructureTransitionImpl(std::int64_t channels, double dropout);
  at::Tensor forward(const at::Tensor& s);

  double share; // of dropout
  Linear first = nullptr, second = nullptr, third = nullptr;
  LayerNorm norm = nullptr;
};
TORCH_MODULE(StructureTransition);

/// Algorithm 23, and line 10 of Algorithm 20. Parameters: linear.
struct BackboneUpdateImpl : torch::nn::Module {
  explicit BackboneUpdateImpl(std::int64_t channels);
  /// [R, channels]: a turn and a shift of each frame in itself.
  Rigid forward(const at::Tensor& s, const Rigid& frames);

  Linear linear;
};
TORCH_MODULE(BackboneUpdate);

/// Two linear maps, each behind a ReLU, added to the input. Parameters: linear_1, linear_2.
struct TorsionBlockImpl : torch::nn::Module {
  explicit TorsionBlockImpl(std::int64_t channels);
  at::Tensor forward(const at::Tensor& s);

  Linear first, second;
};
TORCH_MODULE(TorsionBlock);

/// Lines 11 to 14 of Algorithm 20. Parameters: linear_in, linear_initial, layers, linear_out.
struct TorsionResnetImpl : torch::nn::Module {
  explicit TorsionResnetImpl(const ModelConfig& config);
  /// s [..., R, single], initial [R, single]; (sine, cosine) of seven angles, not yet of length 1,
  /// [..., R, 7, 2].
  at::Tensor forward(const at::Tensor& s, const at::Tensor& initial);

  Linear in, initialIn;
  torch::nn::ModuleList layers;
  Linear out = nullptr;
};
TORCH_MODULE(TorsionResnet);

/// Vectors [..., 2] of length 1, as published: zeros stay zeros. The gradient of what is shorter
/// than 1 / steepest is that at this length, so that an angle that passes through zero does not
/// outweigh all else in a step whose gradients are clipped together.
constexpr double steepest = 100;
at::Tensor directionsOf(const at::Tensor& raw);

/// L layers, the last of which counts; lengths in angstrom.
struct PredictedStructure {
  std::vector<Rigid> backbones; // of each layer, [R]
  at::Tensor angles, rawAngles; // [L, R, 7, 2], of length 1 and before that
  Rigid groups;                 // [R, 8]
  at::Tensor positions;         // [R, 14, 3]
  at::Tensor single;            // [R, single]
};

/// Parameters: layer_norm_s, layer_norm_z, linear_in, ipa, layer_norm_ipa, transition, bb_update,
/// angle_resnet; shared by all layers.
struct StructureModuleImpl : torch::nn::Module {
  explicit StructureModuleImpl(const ModelConfig& config);
  /// s [R, single], z [R, R, pair], aatype [R], mask [R]. Computed in fp32 if they are bf16.
  PredictedStructure forward(const at::Tensor& s, const at::Tensor& z, const at::Tensor& aatype,
                             const at::Tensor& mask);

  std::int64_t layers;
  double share;
  LayerNorm normS, normZ;
  Linear in;
  InvariantPointAttention ipa;
  LayerNorm normIpa;
  StructureTransition transition;
  BackboneUpdate update;
  TorsionResnet torsions;
};
TORCH_MODULE(StructureModule);

} // namespace kiln::alphafold
