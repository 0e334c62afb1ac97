// See Evoformer.h.
#include "models/alphafold/model/Evoformer.h"

#include "models/common/Recompute.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// What `block` makes of its inputs, kept or computed again in the backward, where nothing is drawn
/// again.
Representations passed(BlockImpl& block, const Representations& in, const Masks& masks,
                       bool recompute) {
  if (!recompute || !at::GradMode::is_enabled())
    return block.forward(in, masks);
  const auto step = [&block, masks, scales = block.drawScales(in)](const models::Tensors& x) {
    const Representations out = block.scaled({x[0], x[1]}, masks, scales);
    return models::Tensors{out.m, out.z};
  };
  const models::Tensors out =
      models::recomputed(step, {in.m, in.z}, block.parameters(), models::Draws::nothing);
  return {out[0], out[1]};
}

} // namespace

BlockImpl::BlockImpl(const ModelConfig& config, std::int64_t channels, std::int64_t head)
    : share(config.msaDropout),
      row(register_module("msa_att_row",
                          MsaRowAttention(channels, config.pair, config.msaHeads, head))),
      transition(register_module("msa_transition", Transition(channels, config.transition))),
      outer(register_module("outer_product_mean",
                            OuterProductMean(channels, config.pair, config.outerProduct))),
      pairs(register_module("pair_stack", PairStack(config))) {}

BlockScales BlockImpl::drawScales(const Representations& in) const {
  const std::vector<Tensor> row = alphafold::drawScales(in.m.options(), share, is_training(),
                                                        {{1, in.m.size(1), in.m.size(2)}});
  return {row[0], drawPairScales(in.z, pairs->share, is_training())};
}

Representations BlockImpl::scaled(const Representations& in, const Masks& masks,
                                  const BlockScales& scales) {
  Renewed m = added(in.m, row->update(in.m, in.z, masks.msa).scaledBy(scales.row), columnNorm());
  m = added(m.stream, columns(m.normed, masks.msa), transition->norm);
  m = added(m.stream, transition->update(m.normed), outer->norm);
  return {m.stream,
          pairs->scaled(added(in.z, outer->update(m.normed, masks.msa), pairs->outgoing->normIn),
                        masks.pair, scales.pairs)};
}

EvoformerBlockImpl::EvoformerBlockImpl(const ModelConfig& config)
    : BlockImpl(config, config.msa, config.msaHead),
      column(register_module("msa_att_col",
                             MsaColumnAttention(config.msa, config.msaHeads, config.msaHead))) {}

Update EvoformerBlockImpl::columns(const Tensor& normed, const Tensor& mask) {
  return column->update(normed, mask);
}

ExtraMsaBlockImpl::ExtraMsaBlockImpl(const ModelConfig& config)
    : BlockImpl(config, config.extraMsa, config.extraHead),
      column(
          register_module("msa_att_col", MsaGlobalColumnAttention(config.extraMsa, config.msaHeads,
                                                                  config.extraHead))) {}

Update ExtraMsaBlockImpl::columns(const Tensor& normed, const Tensor& mask) {
  return column->update(normed, mask);
}

ExtraMsaEmbedderImpl::ExtraMsaEmbedderImpl(const ModelConfig& config)
    : linear(register_module("linear", Linear(config.extraFeatures, config.extraMsa))) {}

Tensor ExtraMsaEmbedderImpl::forward(const Tensor& features) {
  return linear(features);
}

ExtraMsaStackImpl::ExtraMsaStackImpl(const ModelConfig& config)
    : blocks(register_module("blocks", torch::nn::ModuleList())) {
  for (std::int64_t i = 0; i < config.extraBlocks; ++i)
    blocks->push_back(ExtraMsaBlock(config));
}

Tensor ExtraMsaStackImpl::forward(Representations in, const Masks& masks) {
  for (const auto& block : *blocks)
    in = passed(*block->as<ExtraMsaBlock>(), in, masks, recompute);
  return in.z;
}

EvoformerImpl::EvoformerImpl(const ModelConfig& config)
    : blocks(register_module("blocks", torch::nn::ModuleList())),
      single(register_module("linear", Linear(config.msa, config.single))) {
  for (std::int64_t i = 0; i < config.evoformerBlocks; ++i)
    blocks->push_back(EvoformerBlock(config));
}

Trunk EvoformerImpl::forward(Representations in, const Masks& masks) {
  for (const auto& block : *blocks)
    in = passed(*block->as<EvoformerBlock>(), in, masks, recompute);
  return {in.m, in.z, single(in.m[0])};
}

} // namespace kiln::alphafold
