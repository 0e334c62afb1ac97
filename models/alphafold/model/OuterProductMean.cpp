// See OuterProductMean.h.
#include "models/alphafold/model/OuterProductMean.h"

#include "kiln/fuse.h"
#include "models/alphafold/model/OuterProduct.h"
#include "models/alphafold/model/Products.h"
#include "models/alphafold/model/Stream.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

OuterProductMeanImpl::OuterProductMeanImpl(std::int64_t channels, std::int64_t pair,
                                           std::int64_t hidden)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      left(register_module("linear_1", Linear(channels, hidden))),
      right(register_module("linear_2", Linear(channels, hidden))),
      output(register_module("linear_out", Linear(hidden * hidden, pair, Init::zero))) {}

OuterProductMeanImpl::Parts OuterProductMeanImpl::parts(const Tensor& m, const Tensor& mask) {
  const std::vector<Tensor> made =
      products(norm(m), {{left->weight, left->bias}, {right->weight, right->bias}});
  const Tensor sums = outerProduct(masked(made[0], mask), masked(made[1], mask), output->weight);
  if (!mask.defined())
    return {sums, at::full({1}, 1 / (double(m.size(0)) + 1e-3),
                           output->weight.options().requires_grad(false))};
  const FullPrecision exact(m); // counts above 256 are not numbers of bf16
  return {sums, (at::matmul(mask.t(), mask).unsqueeze(-1) + 1e-3).reciprocal()};
}

Tensor OuterProductMeanImpl::forward(const Tensor& m, const Tensor& mask) {
  static const auto mean = fuse(
      [](const Expr& sums, const Expr& bias, const Expr& weight) { return weight * (sums + bias); },
      {.name = "outer_product_mean"});
  const auto [sums, weights] = parts(m, mask);
  return mean(sums, output->bias, weights);
}

Tensor OuterProductMeanImpl::addTo(const Tensor& z, const Tensor& m, const Tensor& mask) {
  const auto [sums, weights] = parts(m, mask);
  return addedBiased(z, sums, output->bias, weights);
}

} // namespace kiln::alphafold
