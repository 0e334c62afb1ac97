// From the alignment to pairs: the mean of outer products over sequences. Algorithm 10.
#pragma once

#include "models/alphafold/model/Stream.h"

namespace kiln::alphafold {

/// Parameters: layer_norm, linear_1, linear_2, linear_out.
struct OuterProductMeanImpl : torch::nn::Module {
  OuterProductMeanImpl(std::int64_t channels, std::int64_t pair, std::int64_t hidden);
  /// m [S, R, channels], mask [S, R] or undefined; what is to be added to pairs, [R, R, pair]. As
  /// in the published code the sum goes through the last linear map before it is divided by the
  /// number of sequences that have both residues, plus 1e-3.
  at::Tensor forward(const at::Tensor& m, const at::Tensor& mask) {
    return update(norm(m), mask).alone();
  }
  /// Of m behind its norm.
  Update update(const at::Tensor& normed, const at::Tensor& mask);

  LayerNorm norm;
  Linear left, right, output;
};
TORCH_MODULE(OuterProductMean);

} // namespace kiln::alphafold
