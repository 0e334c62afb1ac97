// The whole model: Algorithm 2, run several times over the same protein (30 in inference, 31 in
// training), each time with what the time before has found.
#pragma once

#include "models/alphafold/model/Evoformer.h"
#include "models/alphafold/model/Heads.h"
#include "models/alphafold/model/RecyclingEmbedder.h"
#include "models/alphafold/model/StructureModule.h"
#include "models/alphafold/model/TemplateEmbedder.h"

#include <filesystem>
#include <span>

namespace kiln::alphafold {

/// Of a pass.
struct Outputs {
  PredictedStructure structure;
  Predictions predictions;
  Recycled recycled; // for the next one, without gradients
};

/// Parameters, under OpenFold's names and in its order: input_embedder, recycling_embedder,
/// template_embedder, extra_msa_embedder, extra_msa_stack, evoformer, structure_module, aux_heads.
struct AlphaFoldImpl : torch::nn::Module {
  /// Throws Error(input) for a config that cannot be.
  explicit AlphaFoldImpl(const ModelConfig& config);

  /// One pass after another, all but the last without gradients; what the last one has found. Each
  /// has inputs of its own, since the alignment is drawn anew. Throws Error(input) for tensors that
  /// are missing or do not fit.
  Outputs forward(std::span<const Inputs> passes);

  /// One pass.
  Outputs pass(const Inputs& inputs, const Recycled& before);
  /// What is recycled before the first pass: zeros.
  Recycled nothing(const Inputs& inputs) const;
  /// Of the alignment with the rows of templates, and of pairs.
  static Masks masksOf(const Inputs& inputs);

  /// Whether blocks of trunk and templates keep what is between for the backward, or compute it
  /// again.
  void setRecompute(bool recompute);

  std::int64_t parameterCount() const;
  /// The parameters alone as a safetensors file, which says of which model they are.
  void writeWeights(const std::filesystem::path& path) const;

  ModelConfig config;
  InputEmbedder inputEmbedder;
  RecyclingEmbedder recyclingEmbedder;
  TemplateEmbedder templateEmbedder;
  ExtraMsaEmbedder extraMsaEmbedder;
  ExtraMsaStack extraMsaStack;
  Evoformer evoformer;
  StructureModule structureModule;
  Heads heads;

 private:
  void checkFeatures(const Inputs& inputs) const;
  Trunk trunk(const Inputs& inputs, const Recycled& before);
};
TORCH_MODULE(AlphaFold);

} // namespace kiln::alphafold
