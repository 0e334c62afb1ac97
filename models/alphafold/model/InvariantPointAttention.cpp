// See InvariantPointAttention.h.
#include "models/alphafold/model/InvariantPointAttention.h"

#include "kiln/fuse.h"

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

/// Lines 7 to 8: softmax over keys of three terms of equal variance, [heads, R, R]. Squared
/// distances are products as well: of -|q - k|^2 / 2 the query's square is the same for all keys,
/// and the key's goes with a number 1. Points are seen from their middle, so that squares are
/// small.
Tensor InvariantPointAttentionImpl::weights(const Tensor& s, const Tensor& z, const Tensor& keys,
                                            const Tensor& queryPoints, const Tensor& keyPoints,
                                            const Tensor& mask) {
  static const auto softmaxOf = fuse(
      [](const Expr& products, const Expr& bias, const Expr& mask) {
        return kiln::softmax(products + bias * (1 / std::sqrt(3.0)) + mask);
      },
      {.name = "point_attention"});
  const Tensor queries = q(s).unflatten(-1, {heads, -1}).transpose(0, 1); // [heads, R, head]
  const double variance = 9.0 / 2 * double(queryPoints.size(2)); // of a sum of squared distances
  const Tensor strength = at::sqrt(at::softplus(headWeights) / std::sqrt(3.0 * variance));
  const Tensor middle = keyPoints.detach().mean({0, 1, 2});
  const auto weighted = [&](const Tensor& points) { // [heads, R, 3 points]
    return ((points - middle) * strength.view({-1, 1, 1})).transpose(0, 1).flatten(2);
  };
  const Tensor from = weighted(queryPoints), to = weighted(keyPoints);
  const Tensor one = at::ones({heads, s.size(0), 1}, s.options().requires_grad(false));
  const Tensor products = at::matmul(
      at::cat({queries / std::sqrt(3.0 * double(head)), from, one}, -1),
      at::cat({keys, to, -0.5 * to.square().sum(-1, /*keepdim=*/true)}, -1).transpose(1, 2));
  const Tensor bias = pairBias(z).permute({2, 0, 1});
  return softmaxOf(products, bias, maskBias(mask.unsqueeze(1) * mask, 1e5));
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
