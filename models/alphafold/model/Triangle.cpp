// See Triangle.h.
#include "models/alphafold/model/Triangle.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

TriangleMultiplicationImpl::TriangleMultiplicationImpl(std::int64_t pair, std::int64_t hidden,
                                                       Sides sides)
    : sides(sides), gate(register_module("linear_g", Linear(pair, pair, Init::gate))),
      output(register_module("linear_z", Linear(hidden, pair, Init::zero))),
      normIn(register_module("layer_norm_in", LayerNorm(pair))),
      normOut(register_module("layer_norm_out", LayerNorm(hidden))),
      a(register_module("linear_a_p", Linear(pair, hidden))),
      aGate(register_module("linear_a_g", Linear(pair, hidden, Init::gate))),
      b(register_module("linear_b_p", Linear(pair, hidden))),
      bGate(register_module("linear_b_g", Linear(pair, hidden, Init::gate))) {}

Tensor TriangleMultiplicationImpl::forward(const Tensor& z, const Tensor& mask) {
  const Tensor x = normIn(z);
  const auto side = [&](Linear& linear, Linear& gate) { // [hidden, R, R]
    return masked(gated(gate(x), linear(x)), mask).permute({2, 0, 1});
  };
  const Tensor left = side(a, aGate), right = side(b, bGate);
  const Tensor product = sides == Sides::outgoing // of each channel
                             ? at::matmul(left, right.transpose(1, 2))
                             : at::matmul(left.transpose(1, 2), right);
  return gated(gate(x), output(normOut(product.permute({1, 2, 0}))));
}

TriangleAttentionImpl::TriangleAttentionImpl(std::int64_t pair, std::int64_t heads,
                                             std::int64_t head, Node node)
    : node(node), norm(register_module("layer_norm", LayerNorm(pair))),
      pairBias(register_module("linear", Linear(pair, heads, Init::normal, /*hasBias=*/false))),
      mha(register_module("mha", Attention(AttentionSizes{pair, pair, heads, head, pair}))) {}

Tensor TriangleAttentionImpl::forward(const Tensor& z, const Tensor& mask) {
  const bool turned = node == Node::ending; // the same along columns
  const Tensor x = norm(turned ? z.transpose(0, 1) : z);
  const Tensor y = mha(x, x, turned ? transposed(mask) : mask, byHead(pairBias(x)));
  return turned ? y.transpose(0, 1) : y;
}

} // namespace kiln::alphafold
