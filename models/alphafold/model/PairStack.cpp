// See PairStack.h.
#include "models/alphafold/model/PairStack.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

PairScales drawPairScales(const Tensor& z, double share, bool training) {
  std::vector<std::int64_t> first = z.sizes().vec(), second = first;
  first[first.size() - 3] = second[second.size() - 2] = 1;
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
  return scaled({z, outgoing->normIn(z)}, mask, drawPairScales(z, share, is_training()));
}

Tensor PairStackImpl::scaled(Renewed z, const Tensor& mask, const PairScales& scales) {
  z = added(z.stream, outgoing->update(z.normed, mask).scaledBy(scales.outgoing), incoming->normIn);
  z = added(z.stream, incoming->update(z.normed, mask).scaledBy(scales.incoming), starting->norm);
  z = added(z.stream, starting->update(z.normed, mask).scaledBy(scales.starting), ending->norm);
  z = added(z.stream, ending->update(z.normed, mask).scaledBy(scales.ending), transition->norm);
  return added(z.stream, transition->update(z.normed));
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

Renewed TemplatePairBlockImpl::scaled(const LayerNorm& next, Renewed t, const Tensor& mask,
                                      const PairScales& scales) {
  t = added(t.stream, starting->update(t.normed, mask).scaledBy(scales.starting), ending->norm);
  t = added(t.stream, ending->update(t.normed, mask).scaledBy(scales.ending), outgoing->normIn);
  t = added(t.stream, outgoing->update(t.normed, mask).scaledBy(scales.outgoing), incoming->normIn);
  t = added(t.stream, incoming->update(t.normed, mask).scaledBy(scales.incoming), transition->norm);
  return added(t.stream, transition->update(t.normed), next);
}

} // namespace kiln::alphafold
