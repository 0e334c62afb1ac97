// See OuterProductMean.h.
#include "models/alphafold/model/OuterProductMean.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

OuterProductMeanImpl::OuterProductMeanImpl(std::int64_t channels, std::int64_t pair,
                                           std::int64_t hidden)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      left(register_module("linear_1", Linear(channels, hidden))),
      right(register_module("linear_2", Linear(channels, hidden))),
      output(register_module("linear_out", Linear(hidden * hidden, pair, Init::zero))) {}

Tensor OuterProductMeanImpl::forward(const Tensor& m, const Tensor& mask) {
  const std::int64_t residues = m.size(1);
  const Tensor x = norm(m);
  const Tensor a = masked(left(x), mask).flatten(1), b = masked(right(x), mask).flatten(1);
  const Tensor products = at::matmul(a.t(), b)
                              .unflatten(1, {residues, -1})
                              .unflatten(0, {residues, -1})
                              .transpose(1, 2) // [R, R, hidden, hidden]
                              .flatten(2);
  const Tensor sum = output(products);
  if (!mask.defined())
    return sum / (double(m.size(0)) + 1e-3);
  const FullPrecision exact(m); // counts above 256 are not numbers of bf16
  const Tensor sequences = at::matmul(mask.t(), mask).unsqueeze(-1);
  return sum / (sequences + 1e-3);
}

} // namespace kiln::alphafold
