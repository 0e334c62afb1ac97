// See AlphaFold.h.
#include "models/alphafold/model/AlphaFold.h"

#include "models/alphafold/model/AllAtom.h"
#include "models/common/Checkpoint.h"
#include "models/common/Fail.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

using at::Tensor;
using models::fail;

namespace {

const ModelConfig& checked(const ModelConfig& config) {
  config.check();
  return config;
}

} // namespace

AlphaFoldImpl::AlphaFoldImpl(const ModelConfig& given)
    : config(checked(given)),
      inputEmbedder(register_module("input_embedder", InputEmbedder(config))),
      recyclingEmbedder(register_module("recycling_embedder", RecyclingEmbedder(config))),
      templateEmbedder(register_module("template_embedder", TemplateEmbedder(config))),
      extraMsaEmbedder(register_module("extra_msa_embedder", ExtraMsaEmbedder(config))),
      extraMsaStack(register_module("extra_msa_stack", ExtraMsaStack(config))),
      evoformer(register_module("evoformer", Evoformer(config))),
      structureModule(register_module("structure_module", StructureModule(config))),
      heads(register_module("aux_heads", Heads(config))) {}

void AlphaFoldImpl::setRecompute(bool recompute) {
  templateEmbedder->stack->recompute = recompute;
  extraMsaStack->recompute = evoformer->recompute = recompute;
}

std::int64_t AlphaFoldImpl::parameterCount() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters())
    count += parameter.numel();
  return count;
}

void AlphaFoldImpl::writeWeights(const std::filesystem::path& path) const {
  models::writeSafetensors(path, models::parametersOf(*this),
                           {{"format", "pt"}, {"model", config.text()}});
}

void AlphaFoldImpl::checkFeatures(const Inputs& inputs) const {
  inputs.check();
  const auto expect = [](const char* name, const Tensor& tensor, std::int64_t features) {
    if (tensor.size(-1) != features)
      fail(ErrorKind::input, "{} has {} features, and this model reads {}", name, tensor.size(-1),
           features);
  };
  expect("target_feat", inputs.targetFeat, config.targetFeatures);
  expect("msa_feat", inputs.msaFeat, config.msaFeatures);
  expect("extra_msa_feat", inputs.extraMsaFeat, config.extraFeatures);
}

Recycled AlphaFoldImpl::nothing(const Inputs& inputs) const {
  const std::int64_t residues = inputs.targetFeat.size(0);
  const auto options = inputs.targetFeat.options();
  return {at::zeros({residues, config.msa}, options),
          at::zeros({residues, residues, config.pair}, options), at::zeros({residues, 3}, options)};
}

Masks AlphaFoldImpl::masksOf(const Inputs& inputs) {
  const Tensor& there = inputs.seqMask;
  Masks masks = {inputs.isMsaFull ? Tensor() : inputs.msaMask,
                 inputs.isSeqFull ? Tensor() : there.unsqueeze(1) * there.unsqueeze(0)};
  constexpr int psi = 2; // whose mask stands for its row's
  if (inputs.hasTemplates())
    masks.msa = at::cat({inputs.msaMask, inputs.templateTorsionAnglesMask.select(-1, psi)});
  return masks;
}

/// Lines 4 to 17 of Algorithm 2.
Trunk AlphaFoldImpl::trunk(const Inputs& inputs, const Recycled& before) {
  Representations in = recyclingEmbedder(inputEmbedder(inputs), before);
  const Masks masks = masksOf(inputs);
  if (inputs.hasTemplates()) {
    const auto [rows, pairs] = templateEmbedder(inputs, in.z, masks.pair);
    in = {at::cat({in.m, rows}), in.z + pairs};
  }
  const Masks ofExtra = {inputs.isExtraMsaFull ? Tensor() : inputs.extraMsaMask, masks.pair};
  in.z = extraMsaStack(Representations{extraMsaEmbedder(inputs.extraMsaFeat), in.z}, ofExtra);
  return evoformer(in, masks);
}

Outputs AlphaFoldImpl::pass(const Inputs& inputs, const Recycled& before) {
  const auto [m, z, s] = trunk(inputs, before);
  const Tensor clusters = m.slice(0, 0, inputs.msaFeat.size(0)); // without rows of templates
  Outputs found;
  found.structure = structureModule(s, z, inputs.aatype, inputs.seqMask);
  found.predictions = heads(HeadInputs{clusters, z, s, found.structure.single});
  found.recycled = {m[0].detach(), z.detach(),
                    pseudoBeta(found.structure.positions.detach(), inputs.aatype)};
  return found;
}

Outputs AlphaFoldImpl::forward(std::span<const Inputs> passes) {
  if (passes.empty())
    fail(ErrorKind::input, "no inputs: one pass at least is needed");
  for (const Inputs& inputs : passes)
    checkFeatures(inputs);
  Recycled before = nothing(passes.front());
  for (const Inputs& inputs : passes.first(passes.size() - 1)) {
    const at::NoGradGuard constant;
    before = pass(inputs, before).recycled;
  }
  return pass(passes.back(), before);
}

} // namespace kiln::alphafold
