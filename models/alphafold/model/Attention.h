// Gated attention of several heads: the one place from which scaled_dot_product_attention is
// called, with mask and pair bias joined to one additive bias. Every attention of the Evoformer is
// this one over other rows.
#pragma once

#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

struct AttentionSizes {
  std::int64_t queries, keys; // channels of what queries and gates, keys and values come from
  std::int64_t heads, head;   // count, and channels of one
  std::int64_t out;           // channels of the result
  bool gated = true;
};

/// The sum of the biases that are defined, in the dtype of the first; they broadcast.
at::Tensor joined(const at::Tensor& bias, const at::Tensor& other);

/// Of a mask [B, K] of keys, as a bias [B, 1, 1, K]; undefined: undefined.
at::Tensor keyBias(const at::Tensor& mask);

/// softmax(q k / sqrt(head) + bias) v, gated by a sigmoid, and a last linear map. Parameters:
/// linear_q, linear_k, linear_v, linear_o, linear_g.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const AttentionSizes& sizes);
  /// x [B, Q, queries], keys [B, K, keys], bias undefined or as [B, heads, Q, K] after
  /// broadcasting.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& bias);

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
