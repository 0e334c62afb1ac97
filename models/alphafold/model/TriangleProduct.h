// The product of a triangle's sides, channel by channel, forward and backward, of sides that are
// planes [channels, R, R]: they are gated and masked in one pass, and no product needs a transposed
// copy. The heart of Algorithms 11 and 12.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// Whether the two other sides of a triangle begin in i and j, or end there.
enum class Sides { outgoing, incoming };

/// mask * sigmoid(gate + gateBias) * (values + bias): planes [channels, ..., R, R], biases
/// [channels].
struct Side {
  at::Tensor values, gate, bias, gateBias;
};

/// Outgoing: for each channel the sum over k of left[i, k] right[j, k]; incoming: of left[k, i]
/// right[k, j]. [channels, ..., R, R]; mask [R, R] or undefined. No second derivatives.
at::Tensor triangleProduct(const Side& left, const Side& right, const at::Tensor& mask,
                           Sides sides);

/// Planes [channels, ...] as rows [..., channels].
at::Tensor rowsOf(const at::Tensor& planes);

} // namespace kiln::alphafold
