// See TemplateEmbedder.h.
#include "models/alphafold/model/TemplateEmbedder.h"

#include "models/alphafold/model/TemplateFeatures.h"
#include "models/common/Recompute.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// What `block` makes of its inputs, kept or computed again in the backward, where nothing is drawn
/// again.
Renewed passed(TemplatePairBlockImpl& block, const LayerNorm& next, const Renewed& in,
               const Tensor& mask, bool recompute) {
  const PairScales scales = drawPairScales(in.stream, block.share, block.is_training());
  if (!recompute || !at::GradMode::is_enabled())
    return block.scaled(next, in, mask, scales);
  const auto step = [&block, next, mask, scales](const models::Tensors& x) {
    const Renewed out = block.scaled(next, {x[0], x[1]}, mask, scales);
    return models::Tensors{out.stream, out.normed};
  };
  models::Tensors parameters = block.parameters();
  for (const Tensor& parameter : next->parameters())
    parameters.push_back(parameter);
  const models::Tensors out =
      models::recomputed(step, {in.stream, in.normed}, parameters, models::Draws::nothing);
  return {out[0], out[1]};
}

} // namespace

TemplateAngleEmbedderImpl::TemplateAngleEmbedderImpl(const ModelConfig& config)
    : first(
          register_module("linear_1", Linear(config.templateAngleFeatures, config.msa, Init::he))),
      second(register_module("linear_2", Linear(config.msa, config.msa, Init::he))) {}

Tensor TemplateAngleEmbedderImpl::forward(const Tensor& features) {
  return second(at::relu(first(features)));
}

TemplatePairEmbedderImpl::TemplatePairEmbedderImpl(const ModelConfig& config)
    : linear(register_module("linear",
                             Linear(config.templatePairFeatures, config.templatePair, Init::he))) {}

Tensor TemplatePairEmbedderImpl::forward(const Tensor& features) {
  return linear(features);
}

TemplatePairStackImpl::TemplatePairStackImpl(const ModelConfig& config)
    : blocks(register_module("blocks", torch::nn::ModuleList())),
      norm(register_module("layer_norm", LayerNorm(config.templatePair))) {
  for (std::int64_t i = 0; i < config.templateBlocks; ++i)
    blocks->push_back(TemplatePairBlock(config));
}

Tensor TemplatePairStackImpl::forward(const Tensor& t, const Tensor& mask) {
  const auto normOf = [&](std::size_t i) { // what is read behind block i - 1
    return i < blocks->size() ? blocks[i]->as<TemplatePairBlock>()->starting->norm : norm;
  };
  Renewed now = {t, normOf(0)(t)};
  for (std::size_t i = 0; i < blocks->size(); ++i)
    now = passed(*blocks[i]->as<TemplatePairBlock>(), normOf(i + 1), now, mask, recompute);
  return now.normed;
}

TemplatePointwiseAttentionImpl::TemplatePointwiseAttentionImpl(const ModelConfig& config)
    : mha(register_module(
          "mha", Attention(AttentionSizes{config.pair, config.templatePair, config.templateHeads,
                                          config.templateHead, config.pair, /*gated=*/false}))) {}

Tensor TemplatePointwiseAttentionImpl::forward(const Tensor& t, const Tensor& z,
                                               const Tensor& mask) {
  const Tensor queries = z.flatten(0, 1).unsqueeze(1);
  return mha->between(queries, t.flatten(0, 1), mask.unsqueeze(0)).view_as(z);
}

TemplateEmbedderImpl::TemplateEmbedderImpl(const ModelConfig& config)
    : config(config),
      angles(register_module("template_single_embedder", TemplateAngleEmbedder(config))),
      pairs(register_module("template_pair_embedder", TemplatePairEmbedder(config))),
      stack(register_module("template_pair_stack", TemplatePairStack(config))),
      pointwise(register_module("template_pointwise_att", TemplatePointwiseAttention(config))) {}

Representations TemplateEmbedderImpl::forward(const Inputs& inputs, const Tensor& z,
                                              const Tensor& mask) {
  const Tensor features = templatePairFeatures(inputs, config.templateBins, config.aminoAcids,
                                               config.templateUnitVectors);
  const Tensor all = stack(pairs(features), mask).movedim(0, 2); // [R, R, T, templatePair]
  const Tensor found = pointwise(all, z, inputs.templateMask);
  const Tensor any = (inputs.templateMask.sum() > 0).to(found.scalar_type());
  return {angles(templateAngleFeatures(inputs, config.aminoAcids)), found * any};
}

} // namespace kiln::alphafold
