// What is predicted besides the structure. Section 1.9 of the supplement. All compute in fp32 if
// their inputs are bf16, and return logits.
#pragma once

#include "models/alphafold/model/Config.h"
#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

/// One linear map. Parameters: linear.
struct LinearHeadImpl : torch::nn::Module {
  LinearHeadImpl(std::int64_t in, std::int64_t out);
  at::Tensor forward(const at::Tensor& x);

  Linear linear;
};
TORCH_MODULE(LinearHead);

/// Algorithm 29: how well each residue is placed. Parameters: layer_norm, linear_1 to linear_3.
struct LddtHeadImpl : torch::nn::Module {
  explicit LddtHeadImpl(const ModelConfig& config);
  /// The structure module's single representation [R, single] -> [R, lddtBins].
  at::Tensor forward(const at::Tensor& s);

  LayerNorm norm;
  Linear first, second, third;
};
TORCH_MODULE(LddtHead);

/// Logits of all heads.
struct Predictions {
  at::Tensor lddt;         // [R, lddtBins]
  at::Tensor distogram;    // [R, R, distogramBins], symmetric
  at::Tensor maskedMsa;    // [S, R, msaClasses]
  at::Tensor resolved;     // [R, 37]
  at::Tensor alignedError; // [R, R, alignedErrorBins], or undefined
};

/// What heads read: the Evoformer's alignment (clusters only), pairs and single representation,
/// and the structure module's.
struct HeadInputs {
  at::Tensor m, z, s, structure;
};

/// Parameters: plddt, distogram, masked_msa, experimentally_resolved, and tm where the aligned
/// error is wanted.
struct HeadsImpl : torch::nn::Module {
  explicit HeadsImpl(const ModelConfig& config);
  Predictions forward(const HeadInputs& in);

  LddtHead lddt;
  LinearHead distogram, maskedMsa, resolved, alignedError = nullptr;
};
TORCH_MODULE(Heads);

/// Of logits [..., bins]: what the bins stand for on average, 0 to 100. Algorithm 29.
at::Tensor lddtOf(const at::Tensor& logits);

} // namespace kiln::alphafold
