// See OuterProductMean.h.
#include "models/alphafold/model/OuterProductMean.h"

#include "models/alphafold/model/OuterProduct.h"
#include "models/common/Products.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;
using models::products;

OuterProductMeanImpl::OuterProductMeanImpl(std::int64_t channels, std::int64_t pair,
                                           std::int64_t hidden)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      left(register_module("linear_1", Linear(channels, hidden))),
      right(register_module("linear_2", Linear(channels, hidden))),
      output(register_module("linear_out", Linear(hidden * hidden, pair, Init::zero))) {}

Update OuterProductMeanImpl::update(const Tensor& normed, const Tensor& mask) {
  const std::vector<Tensor> made =
      products(normed, {{left->weight, left->bias}, {right->weight, right->bias}});
  Update update = {outerProduct(masked(made[0], mask), masked(made[1], mask), output->weight),
                   output->bias};
  if (mask.defined()) {
    const FullPrecision exact(normed); // counts above 256 are not numbers of bf16
    update.scale = (at::matmul(mask.t(), mask).unsqueeze(-1) + 1e-3).reciprocal();
  } else {
    update.scale = at::full({1}, 1 / (double(normed.size(0)) + 1e-3),
                            output->weight.options().requires_grad(false));
  }
  return update;
}

} // namespace kiln::alphafold
