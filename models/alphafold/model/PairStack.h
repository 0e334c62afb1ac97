// The pairs' part of a block: triangle products, triangle attentions and a transition, each with
// dropout and added to the pairs. In the Evoformer (Algorithm 6), the extra stack (18) and, in
// another order, over templates (16).
#pragma once

#include "models/alphafold/model/Config.h"
#include "models/alphafold/model/Transition.h"
#include "models/alphafold/model/Triangle.h"

namespace kiln::alphafold {

/// What the updates of pairs are scaled by; undefined: by 1.
struct PairScales {
  at::Tensor outgoing, incoming, starting, ending;
};

/// Those of dropout for z [..., R, R, channels]: masks are shared along the first of the two
/// dimensions, those of the attention around ending nodes along the second.
PairScales drawPairScales(const at::Tensor& z, double share, bool training);

/// Parameters: tri_mul_out, tri_mul_in, tri_att_start, tri_att_end, pair_transition.
struct PairStackImpl : torch::nn::Module {
  explicit PairStackImpl(const ModelConfig& config);
  /// z [R, R, pair], mask [R, R].
  at::Tensor forward(const at::Tensor& z, const at::Tensor& mask);
  /// The same with scales that were drawn before, of z and its norm by outgoing->normIn.
  at::Tensor scaled(Renewed z, const at::Tensor& mask, const PairScales& scales);

  double share; // of dropout
  TriangleMultiplication outgoing, incoming;
  TriangleAttention starting, ending;
  Transition transition;
};
TORCH_MODULE(PairStack);

/// A block of Algorithm 16: attentions first. Parameters: tri_att_start, tri_att_end, tri_mul_out,
/// tri_mul_in, pair_transition.
struct TemplatePairBlockImpl : torch::nn::Module {
  explicit TemplatePairBlockImpl(const ModelConfig& config);
  /// t [..., R, R, templatePair], mask [R, R].
  at::Tensor forward(const at::Tensor& t, const at::Tensor& mask) {
    return scaled(starting->norm, {t, starting->norm(t)}, mask,
                  drawPairScales(t, share, is_training()))
        .stream;
  }
  /// The same of t and its norm by starting->norm, and the norm that is read next, with scales that
  /// were drawn before.
  Renewed scaled(const LayerNorm& next, Renewed t, const at::Tensor& mask,
                 const PairScales& scales);

  double share;
  TriangleAttention starting, ending;
  TriangleMultiplication outgoing, incoming;
  Transition transition;
};
TORCH_MODULE(TemplatePairBlock);

} // namespace kiln::alphafold
