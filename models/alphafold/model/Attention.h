// Gated attention of several heads: the one place from which attention is called, with a mask of
// keys and a pair bias beside each other. Every attention of the Evoformer is this one over other
// rows.
#pragma once

#include "models/alphafold/model/Stream.h"

namespace kiln::alphafold {

struct AttentionSizes {
  std::int64_t queries, keys; // channels of what queries and gates, keys and values come from
  std::int64_t heads, head;   // count, and channels of one
  std::int64_t out;           // channels of the result
  bool gated = true;
};

/// Which rows of [..., A, B, channels] see each other. Neither makes a copy: attention takes
/// queries, keys and values as they lie.
enum class Along {
  rows,   // those of one A: attention over B
  columns // those of one B: attention over A
};

/// What keys attention reads, and how much.
struct Attended {
  at::Tensor mask{};      // [A, B], or undefined: all are there
  at::Tensor bias{};      // [heads, Q, K], or undefined
  Linear pairs = nullptr; // gives the bias of Q = K = A = B from x itself, each [A, B] its own
  Along along = Along::rows;
};

/// softmax(q k / sqrt(head) + bias) v, gated by a sigmoid, and a last linear map. Parameters:
/// linear_q, linear_k, linear_v, linear_o, linear_g. A query whose keys are all masked hears
/// nothing: it gets zeros before the gate.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const AttentionSizes& sizes);
  /// Of x [..., A, B, queries] with itself.
  Update forward(const at::Tensor& x, const Attended& attended);
  /// Of x [B, Q, queries] with keys [B, K, keys], mask [B, K] or undefined.
  at::Tensor between(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& mask);

  std::int64_t heads;
  Linear q, k, v, output, gate = nullptr;

 private:
  Update ended(const at::Tensor& heard, const at::Tensor& gates);
};
TORCH_MODULE(Attention);

/// Algorithm 19 without its norm: one query a head, the mean over rows, and one head of keys and
/// values for all. Gates and the result are of each row. Parameters as above.
struct GlobalAttentionImpl : torch::nn::Module {
  GlobalAttentionImpl(std::int64_t channels, std::int64_t heads, std::int64_t head);
  /// x [S, B, channels], mask [S, B] or undefined; the attention is over S.
  Update forward(const at::Tensor& x, const at::Tensor& mask);

  std::int64_t heads;
  Linear q, k, v, gate, output;
};
TORCH_MODULE(GlobalAttention);

} // namespace kiln::alphafold
