// Updates of a residual stream: each is added in one pass, with its gate, its dropout or its mean.
// The gradient of the stream is that of the sum, the same tensor: none of them writes it anew.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// stream + scale * update, in the stream's dtype. The scale is broadcast, has no gradient, and may
/// be undefined: 1.
at::Tensor added(const at::Tensor& stream, const at::Tensor& update, const at::Tensor& scale = {});

/// stream + scale * sigmoid(gate) * update, likewise.
at::Tensor addedGated(const at::Tensor& stream, const at::Tensor& gate, const at::Tensor& update,
                      const at::Tensor& scale = {});

/// stream + scale * (update + bias), likewise; bias [channels].
at::Tensor addedBiased(const at::Tensor& stream, const at::Tensor& update, const at::Tensor& bias,
                       const at::Tensor& scale);

} // namespace kiln::alphafold
