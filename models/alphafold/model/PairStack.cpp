// See PairStack.h. Masks of dropout are shared along the first of the two dimensions of pairs,
// those of the attention around ending nodes along the second.
#include "models/alphafold/model/PairStack.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

PairStackImpl::PairStackImpl(const ModelConfig& config)
    : share(config.pairDropout),
      outgoing(register_module(
          "tri_mul_out", TriangleMultiplication(config.pair, config.triangle, Sides::outgoing))),
      incoming(register_module(
          "tri_mul_in", TriangleMultiplication(config.pair, config.triangle, Sides::incoming))),
      starting(
          register_module("tri_att_start", TriangleAttention(config.pair, config.pairHeads,
                                                             config.pairHead, Node::starting))),
      ending(register_module("tri_att_end", TriangleAttention(config.pair, config.pairHeads,
                                                              config.pairHead, Node::ending))),
      transition(register_module("pair_transition", Transition(config.pair, config.transition))) {}

Tensor PairStackImpl::forward(Tensor z, const Tensor& mask) {
  z = z + dropout(outgoing(z, mask), share, is_training(), 0);
  z = z + dropout(incoming(z, mask), share, is_training(), 0);
  z = z + dropout(starting(z, mask), share, is_training(), 0);
  z = z + dropout(ending(z, mask), share, is_training(), 1);
  return z + transition(z);
}

TemplatePairBlockImpl::TemplatePairBlockImpl(const ModelConfig& config)
    : share(config.pairDropout),
      starting(register_module("tri_att_start",
                               TriangleAttention(config.templatePair, config.templateHeads,
                                                 config.templateHead, Node::starting))),
      ending(register_module("tri_att_end",
                             TriangleAttention(config.templatePair, config.templateHeads,
                                               config.templateHead, Node::ending))),
      outgoing(register_module(
          "tri_mul_out",
          TriangleMultiplication(config.templatePair, config.templateTriangle, Sides::outgoing))),
      incoming(register_module(
          "tri_mul_in",
          TriangleMultiplication(config.templatePair, config.templateTriangle, Sides::incoming))),
      transition(register_module("pair_transition",
                                 Transition(config.templatePair, config.templateTransition))) {}

Tensor TemplatePairBlockImpl::forward(Tensor t, const Tensor& mask) {
  t = t + dropout(starting(t, mask), share, is_training(), 0);
  t = t + dropout(ending(t, mask), share, is_training(), 1);
  t = t + dropout(outgoing(t, mask), share, is_training(), 0);
  t = t + dropout(incoming(t, mask), share, is_training(), 0);
  return t + transition(t);
}

} // namespace kiln::alphafold
