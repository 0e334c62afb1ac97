// From the alignment to pairs: the mean of outer products over sequences. Algorithm 10.
#pragma once

#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

/// Parameters: layer_norm, linear_1, linear_2, linear_out.
struct OuterProductMeanImpl : torch::nn::Module {
  OuterProductMeanImpl(std::int64_t channels, std::int64_t pair, std::int64_t hidden);
  /// m [S, R, channels], mask [S, R] or undefined; what is to be added to pairs, [R, R, pair]. As
  /// in the published code the sum goes through the last linear map before it is divided by the
  /// number of sequences that have both residues, plus 1e-3.
  at::Tensor forward(const at::Tensor& m, const at::Tensor& mask);
  /// z with that added, in one pass.
  at::Tensor addTo(const at::Tensor& z, const at::Tensor& m, const at::Tensor& mask);

  LayerNorm norm;
  Linear left, right, output;

 private:
  struct Parts {
    at::Tensor sums;    // through the last linear map, but for its bias
    at::Tensor weights; // of each pair: one by the number of sequences
  };
  Parts parts(const at::Tensor& m, const at::Tensor& mask);
};
TORCH_MODULE(OuterProductMean);

} // namespace kiln::alphafold
