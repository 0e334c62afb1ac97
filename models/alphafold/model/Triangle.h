// Updates of pairs along the triangles that they are sides of. Algorithms 11 to 14.
#pragma once

#include "models/alphafold/model/Attention.h"
#include "models/alphafold/model/TriangleProduct.h"

namespace kiln::alphafold {

/// Algorithms 11 (outgoing) and 12 (incoming). Parameters: linear_g, linear_z, layer_norm_in,
/// layer_norm_out, linear_a_p, linear_a_g, linear_b_p, linear_b_g.
struct TriangleMultiplicationImpl : torch::nn::Module {
  TriangleMultiplicationImpl(std::int64_t pair, std::int64_t hidden, Sides sides);
  /// z [..., R, R, pair], mask [R, R] or undefined; what is to be added to z.
  at::Tensor forward(const at::Tensor& z, const at::Tensor& mask) {
    return update(normIn(z), mask).alone();
  }
  /// Of z behind its norm, normIn.
  Update update(const at::Tensor& normed, const at::Tensor& mask);

  Sides sides;
  Linear gate, output;
  LayerNorm normIn, normOut;
  Linear a, aGate, b, bGate;
};
TORCH_MODULE(TriangleMultiplication);

/// The node that all attended sides have in common.
enum class Node { starting, ending };

/// Algorithms 13 (starting) and 14 (ending). Parameters: layer_norm, linear, mha.
struct TriangleAttentionImpl : torch::nn::Module {
  TriangleAttentionImpl(std::int64_t pair, std::int64_t heads, std::int64_t head, Node node);
  /// As above.
  at::Tensor forward(const at::Tensor& z, const at::Tensor& mask) {
    return update(norm(z), mask).alone();
  }
  Update update(const at::Tensor& normed, const at::Tensor& mask);

  Node node;
  LayerNorm norm;
  Linear pairBias;
  Attention mha;
};
TORCH_MODULE(TriangleAttention);

} // namespace kiln::alphafold
