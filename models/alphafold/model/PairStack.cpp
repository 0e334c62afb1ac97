// See PairStack.h.
#include "models/alphafold/model/PairStack.h"

#include "models/alphafold/model/Stream.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

PairScales drawPairScales(const Tensor& z, double share, bool training) {
  const std::vector<std::int64_t> first = {1, z.size(1), z.size(2)},
                                  second = {z.size(0), 1, z.size(2)};
  const std::vector<Tensor> scales =
      drawScales(z.options(), share, training, {first, first, first, second});
  return {scales[0], scales[1], scales[2], scales[3]};
}

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

Tensor PairStackImpl::forward(const Tensor& z, const Tensor& mask) {
  return scaled(z, mask, drawPairScales(z, share, is_training()));
}

Tensor PairStackImpl::scaled(Tensor z, const Tensor& mask, const PairScales& scales) {
  z = outgoing->addTo(z, mask, scales.outgoing);
  z = incoming->addTo(z, mask, scales.incoming);
  z = added(z, starting(z, mask), scales.starting);
  z = added(z, ending(z, mask), scales.ending);
  return added(z, transition(z));
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
  const PairScales scales = drawPairScales(t, share, is_training());
  t = added(t, starting(t, mask), scales.starting);
  t = added(t, ending(t, mask), scales.ending);
  t = outgoing->addTo(t, mask, scales.outgoing);
  t = incoming->addTo(t, mask, scales.incoming);
  return added(t, transition(t));
}

} // namespace kiln::alphafold
