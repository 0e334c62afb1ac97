// Outer products of two residues' channels, summed over an alignment's rows, and a linear map of
// them, as products alone: what is between, [R, R, hidden^2] numbers, is never moved to another
// order. The heart of Algorithm 10.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// left, right [S, R, hidden], weight [out, hidden hidden]: [R, R, out], the sum over s, c and d of
/// left[s, i, c] right[s, j, d] weight[.., c hidden + d]. No second derivatives.
at::Tensor outerProduct(const at::Tensor& left, const at::Tensor& right, const at::Tensor& weight);

} // namespace kiln::alphafold
