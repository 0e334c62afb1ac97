// See Triangle.h.
#include "models/alphafold/model/Triangle.h"

#include "models/common/Products.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;
using models::Layout;
using models::products;

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

/// Sides are planes, which the product of each channel reads as they lie.
Update TriangleMultiplicationImpl::update(const Tensor& normed, const Tensor& mask) {
  const std::vector<Tensor> made = products(normed, {{a->weight, {}, Layout::planes},
                                                     {aGate->weight, {}, Layout::planes},
                                                     {b->weight, {}, Layout::planes},
                                                     {bGate->weight, {}, Layout::planes},
                                                     {gate->weight}});
  const Tensor planes = triangleProduct({made[0], made[1], a->bias, aGate->bias},
                                        {made[2], made[3], b->bias, bGate->bias}, mask, sides);
  return {.values = products(normOut(rowsOf(planes)), {{output->weight}})[0],
          .bias = output->bias,
          .gate = made[4],
          .gateBias = gate->bias};
}

TriangleAttentionImpl::TriangleAttentionImpl(std::int64_t pair, std::int64_t heads,
                                             std::int64_t head, Node node)
    : node(node), norm(register_module("layer_norm", LayerNorm(pair))),
      pairBias(register_module("linear", Linear(pair, heads, Init::normal, /*hasBias=*/false))),
      mha(register_module("mha", Attention(AttentionSizes{pair, pair, heads, head, pair}))) {}

Update TriangleAttentionImpl::update(const Tensor& normed, const Tensor& mask) {
  const Along along = node == Node::ending ? Along::columns : Along::rows;
  return mha->forward(normed, {.mask = mask, .pairs = pairBias, .along = along});
}

} // namespace kiln::alphafold
