// Two linear maps with a ReLU between, row by row: Algorithm 9 for the alignment, 15 for pairs.
#pragma once

#include "models/alphafold/model/Stream.h"

namespace kiln::alphafold {

/// Parameters: layer_norm, linear_1, linear_2. Masked rows are computed too, as in the published
/// code; nothing that is kept reads them.
struct TransitionImpl : torch::nn::Module {
  /// `factor` times as many channels between.
  TransitionImpl(std::int64_t channels, std::int64_t factor);
  /// [..., channels]; what is to be added to x.
  at::Tensor forward(const at::Tensor& x) { return update(norm(x)).alone(); }
  /// Of x behind its norm.
  Update update(const at::Tensor& normed);

  LayerNorm norm;
  Linear up, down;
};
TORCH_MODULE(Transition);

} // namespace kiln::alphafold
