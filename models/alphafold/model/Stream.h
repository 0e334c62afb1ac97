// Residual streams: an update, with its bias, its gate and its dropout, is added in one pass, and
// in the same pass the sum is normed where a norm reads it next. So is the backward: what comes
// back through the norm joins what comes back along the stream, and gradients of biases, gates and
// the norm's parameters are by-products.
#pragma once

#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

/// What is to be added to a stream: scale * sigmoid(gate + gateBias) * (values + bias).
struct Update {
  at::Tensor values, bias;       // [..., channels], [channels]
  at::Tensor gate{}, gateBias{}; // likewise; undefined: there is no gate
  at::Tensor scale{};            // broadcast, without gradient; undefined: 1

  at::Tensor alone() const;
  Update scaledBy(const at::Tensor& by) const { return {values, bias, gate, gateBias, by}; }
};

/// stream + update, in the stream's dtype.
at::Tensor added(const at::Tensor& stream, const Update& update);

/// The same, and its norm.
struct Renewed {
  at::Tensor stream, normed;
};
Renewed added(const at::Tensor& stream, const Update& update, const LayerNorm& norm);

} // namespace kiln::alphafold
