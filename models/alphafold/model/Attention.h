// Gated attention of several heads: the one place from which attention is called, with a mask of
// keys and a pair bias beside each other. Every attention of the Evoformer is this one over other
// rows.
#pragma once

#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

struct AttentionSizes {
  std::int64_t queries, keys; // channels of what queries and gates, keys and values come from
  std::int64_t heads, head;   // count, and channels of one
  std::int64_t out;           // channels of the result
  bool gated = true;
};

/// Biases of attention as a linear map gives them for pairs, [Q, K, heads], as [heads, Q, K].
at::Tensor byHead(const at::Tensor& pairs);

/// softmax(q k / sqrt(head) + bias) v, gated by a sigmoid, and a last linear map. Parameters:
/// linear_q, linear_k, linear_v, linear_o, linear_g.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const AttentionSizes& sizes);
  /// x [B, Q, queries], keys [B, K, keys], mask [B, K] or undefined, bias [heads, Q, K] or
  /// undefined. A query whose keys are all masked hears nothing: it gets zeros before the gate.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& mask,
                     const at::Tensor& bias);

  std::int64_t heads;
  Linear q, k, v, output, gate = nullptr;
};
TORCH_MODULE(Attention);

/// Algorithm 19 without its norm: one query a head, the mean over rows, and one head of keys and
/// values for all. Gates and the result are of each row. Parameters as above.
struct GlobalAttentionImpl : torch::nn::Module {
  GlobalAttentionImpl(std::int64_t channels, std::int64_t heads, std::int64_t head);
  /// x [B, S, channels], mask [B, S] or undefined; the attention is over S.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask);

  std::int64_t heads;
  Linear q, k, v, gate, output;
};
TORCH_MODULE(GlobalAttention);

} // namespace kiln::alphafold
