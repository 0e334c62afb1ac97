// See InvariantPointAttention.h.
#include "models/alphafold/model/InvariantPointAttention.h"

#include <ATen/ATen.h>

#include <cmath>

namespace kiln::alphafold {

using at::Tensor;

PointsImpl::PointsImpl(std::int64_t in, std::int64_t points)
    : linear(register_module("linear", Linear(in, 3 * points))) {}

Tensor PointsImpl::forward(const Tensor& s, const Rigid& frames) {
  const Tensor local = linear(s).unflatten(-1, {3, -1}).transpose(-1, -2); // [R, points, 3]
  return frames.unsqueeze(1).apply(local);
}

InvariantPointAttentionImpl::InvariantPointAttentionImpl(const ModelConfig& config)
    : heads(config.pointHeads), head(config.pointHead), queryPoints(config.queryPoints),
      valuePoints(config.valuePoints),
      headWeights(register_parameter( // whose softplus is 1
          "head_weights", at::full({heads}, std::log(std::expm1(1.0))))),
      q(register_module("linear_q", Linear(config.single, heads * head))),
      qPoints(register_module("linear_q_points", Points(config.single, heads * queryPoints))),
      kv(register_module("linear_kv", Linear(config.single, 2 * heads * head))),
      kvPoints(register_module("linear_kv_points",
                               Points(config.single, heads * (queryPoints + valuePoints)))),
      pairBias(register_module("linear_b", Linear(config.pair, heads))),
      output(register_module("linear_out", Linear(heads * (head + 4 * valuePoints + config.pair),
                                                  config.single, Init::zero))) {}

/// Lines 7 to 8: softmax over keys of three terms of equal variance, [heads, R, R].
Tensor InvariantPointAttentionImpl::weights(const Tensor& s, const Tensor& z, const Tensor& keys,
                                            const Tensor& queryPoints, const Tensor& keyPoints,
                                            const Tensor& mask) {
  const Tensor queries = q(s).unflatten(-1, {heads, -1}).transpose(0, 1); // [heads, R, head]
  const Tensor products = at::matmul(queries, keys.transpose(1, 2)) / std::sqrt(3.0 * double(head));
  const Tensor bias = pairBias(z).permute({2, 0, 1}) / std::sqrt(3.0);
  const Tensor apart = (queryPoints.unsqueeze(1) - keyPoints.unsqueeze(0)).square().sum({-1, -2});
  const double variance = 9.0 / 2 * double(queryPoints.size(2)); // of a sum of squared distances
  const Tensor strength = at::softplus(headWeights) / (2 * std::sqrt(3.0 * variance));
  const Tensor attraction = (apart * strength).permute({2, 0, 1});
  const Tensor both = maskBias(mask.unsqueeze(1) * mask.unsqueeze(0), 1e5);
  return at::softmax(products + bias - attraction + both, -1);
}

Tensor InvariantPointAttentionImpl::forward(const Tensor& s, const Tensor& z, const Rigid& frames,
                                            const Tensor& mask) {
  const Tensor keysValues = kv(s).unflatten(-1, {heads, -1}).transpose(0, 1);
  const Tensor keys = keysValues.narrow(-1, 0, head), values = keysValues.narrow(-1, head, head);
  const Tensor queried = qPoints(s, frames).unflatten(1, {heads, -1}); // [R, heads, points, 3]
  const Tensor points = kvPoints(s, frames).unflatten(1, {heads, -1});
  const Tensor keyPoints = points.narrow(2, 0, queryPoints);
  const Tensor valuesAt = points.narrow(2, queryPoints, valuePoints);

  const Tensor a = weights(s, z, keys, queried, keyPoints, mask); // [heads, R, R]
  const Tensor scalars = at::matmul(a, values).transpose(0, 1).flatten(1);
  const Tensor global = at::matmul(a, valuesAt.transpose(0, 1).flatten(2)) // [heads, R, 3 points]
                            .transpose(0, 1)
                            .unflatten(-1, {-1, 3});
  const Tensor local = frames.unsqueeze(1).unsqueeze(1).invertApply(global).flatten(1, 2);
  const Tensor lengths = at::sqrt(local.square().sum(-1) + 1e-8);
  const Tensor pairs = at::matmul(a.transpose(0, 1), z).flatten(1); // [R, heads pair]
  return output(at::cat({scalars, local.transpose(1, 2).flatten(1), lengths, pairs}, -1));
}

} // namespace kiln::alphafold
