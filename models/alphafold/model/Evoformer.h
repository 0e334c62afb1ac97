// The trunk: the extra stack over many sequences with few channels, then the Evoformer, which ends
// in the single representation. Algorithms 6 and 18.
#pragma once

#include "models/alphafold/model/InputEmbedder.h"
#include "models/alphafold/model/MsaAttention.h"
#include "models/alphafold/model/OuterProductMean.h"
#include "models/alphafold/model/PairStack.h"

namespace kiln::alphafold {

/// 1 where a tensor holds something: of the alignment [S, R], of pairs [R, R]. Undefined:
/// everywhere, and then no attention needs more than its pair bias, which all rows share.
struct Masks {
  at::Tensor msa, pair;
};

/// What a block's updates are scaled by, as dropout has drawn it; undefined: by 1.
struct BlockScales {
  at::Tensor row;
  PairScales pairs;
};

/// What a block of either stack has. Parameters but for msa_att_col: msa_att_row, msa_transition,
/// outer_product_mean, pair_stack.
struct BlockImpl : torch::nn::Module {
  BlockImpl(const ModelConfig& config, std::int64_t channels, std::int64_t head);
  Representations forward(const Representations& in, const Masks& masks) {
    return scaled(in, masks, drawScales(in));
  }
  /// The same with scales that were drawn before.
  Representations scaled(const Representations& in, const Masks& masks, const BlockScales& scales);
  BlockScales drawScales(const Representations& in) const;

 protected:
  /// What is to be added to the alignment for its columns, of the alignment behind this norm.
  virtual Update columns(const at::Tensor& normed, const at::Tensor& mask) = 0;
  virtual const LayerNorm& columnNorm() const = 0;

 private:
  double share; // of dropout
  MsaRowAttention row;
  Transition transition;
  OuterProductMean outer;
  PairStack pairs;
};

/// A block of Algorithm 6.
struct EvoformerBlockImpl : BlockImpl {
  explicit EvoformerBlockImpl(const ModelConfig& config);

 private:
  Update columns(const at::Tensor& normed, const at::Tensor& mask) override;
  const LayerNorm& columnNorm() const override { return column->rows->normM; }
  MsaColumnAttention column;
};
TORCH_MODULE(EvoformerBlock);

/// A block of Algorithm 18: columns by global attention.
struct ExtraMsaBlockImpl : BlockImpl {
  explicit ExtraMsaBlockImpl(const ModelConfig& config);

 private:
  Update columns(const at::Tensor& normed, const at::Tensor& mask) override;
  const LayerNorm& columnNorm() const override { return column->norm; }
  MsaGlobalColumnAttention column;
};
TORCH_MODULE(ExtraMsaBlock);

/// Line 15 of Algorithm 2. Parameters: linear.
struct ExtraMsaEmbedderImpl : torch::nn::Module {
  explicit ExtraMsaEmbedderImpl(const ModelConfig& config);
  /// [E, R, extraFeatures] -> [E, R, extraMsa].
  at::Tensor forward(const at::Tensor& features);

  Linear linear;
};
TORCH_MODULE(ExtraMsaEmbedder);

/// Parameters: blocks. The pairs; what becomes of the extra alignment is not needed.
struct ExtraMsaStackImpl : torch::nn::Module {
  explicit ExtraMsaStackImpl(const ModelConfig& config);
  at::Tensor forward(Representations in, const Masks& masks);

  bool recompute = false; // in the backward, block by block, instead of keeping what is between
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(ExtraMsaStack);

/// Alignment, pairs, and the single representation [R, single].
struct Trunk {
  at::Tensor m, z, s;
};

/// Parameters: blocks, linear.
struct EvoformerImpl : torch::nn::Module {
  explicit EvoformerImpl(const ModelConfig& config);
  Trunk forward(Representations in, const Masks& masks);

  bool recompute = false; // as above
  torch::nn::ModuleList blocks;
  Linear single;
};
TORCH_MODULE(Evoformer);

} // namespace kiln::alphafold
