// Templates: their angles as rows of the alignment, their pairs through a stack of their own and by
// attention into the pairs of the model. Algorithms 16 and 17, and lines 7 to 13 of Algorithm 2.
#pragma once

#include "models/alphafold/model/InputEmbedder.h"
#include "models/alphafold/model/PairStack.h"

namespace kiln::alphafold {

/// Two linear maps, each with a ReLU but for the last. Parameters: linear_1, linear_2.
struct TemplateAngleEmbedderImpl : torch::nn::Module {
  explicit TemplateAngleEmbedderImpl(const ModelConfig& config);
  /// [T, R, templateAngleFeatures] -> [T, R, msa].
  at::Tensor forward(const at::Tensor& features);

  Linear first, second;
};
TORCH_MODULE(TemplateAngleEmbedder);

/// Parameters: linear.
struct TemplatePairEmbedderImpl : torch::nn::Module {
  explicit TemplatePairEmbedderImpl(const ModelConfig& config);
  /// [..., templatePairFeatures] -> [..., templatePair].
  at::Tensor forward(const at::Tensor& features);

  Linear linear;
};
TORCH_MODULE(TemplatePairEmbedder);

/// Algorithm 16. Parameters: blocks, layer_norm.
struct TemplatePairStackImpl : torch::nn::Module {
  explicit TemplatePairStackImpl(const ModelConfig& config);
  /// One template or all at once, [..., R, R, templatePair], mask [R, R].
  at::Tensor forward(const at::Tensor& t, const at::Tensor& mask);

  bool recompute = false; // in the backward, block by block, instead of keeping what is between
  torch::nn::ModuleList blocks;
  LayerNorm norm;
};
TORCH_MODULE(TemplatePairStack);

/// Algorithm 17: each pair looks at its own place in all templates. Parameters: mha.
struct TemplatePointwiseAttentionImpl : torch::nn::Module {
  explicit TemplatePointwiseAttentionImpl(const ModelConfig& config);
  /// t [R, R, T, templatePair], z [R, R, pair], mask [T]; what is to be added to z.
  at::Tensor forward(const at::Tensor& t, const at::Tensor& z, const at::Tensor& mask);

  Attention mha;
};
TORCH_MODULE(TemplatePointwiseAttention);

/// Parameters: template_single_embedder, template_pair_embedder, template_pair_stack,
/// template_pointwise_att.
struct TemplateEmbedderImpl : torch::nn::Module {
  explicit TemplateEmbedderImpl(const ModelConfig& config);
  /// Inputs with templates, z [R, R, pair], mask [R, R]. Rows to be appended to the alignment,
  /// [T, R, msa], and what is to be added to z; zero if all templates are masked.
  Representations forward(const Inputs& inputs, const at::Tensor& z, const at::Tensor& mask);

  ModelConfig config;
  TemplateAngleEmbedder angles;
  TemplatePairEmbedder pairs;
  TemplatePairStack stack;
  TemplatePointwiseAttention pointwise;
};
TORCH_MODULE(TemplateEmbedder);

} // namespace kiln::alphafold
