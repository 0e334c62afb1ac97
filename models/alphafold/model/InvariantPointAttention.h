// Attention between residues that knows where they are: besides queries and keys, points in each
// residue's frame attract by distance, which no turn or shift of space changes. Algorithm 22.
#pragma once

#include "models/alphafold/model/Config.h"
#include "models/alphafold/model/Primitives.h"
#include "models/alphafold/model/Rigid.h"

namespace kiln::alphafold {

/// A linear map to points. Parameters: linear. Its outputs are all x, then all y, then all z.
struct PointsImpl : torch::nn::Module {
  PointsImpl(std::int64_t in, std::int64_t points);
  /// [R, in] -> [R, points, 3] in the global frame.
  at::Tensor forward(const at::Tensor& s, const Rigid& frames);

  Linear linear;
};
TORCH_MODULE(Points);

/// Parameters: head_weights, linear_q, linear_q_points, linear_kv, linear_kv_points, linear_b,
/// linear_out.
struct InvariantPointAttentionImpl : torch::nn::Module {
  explicit InvariantPointAttentionImpl(const ModelConfig& config);
  /// s [R, single], z [R, R, pair], frames [R] in units of 10 angstrom, mask [R]; what is to be
  /// added to s.
  at::Tensor forward(const at::Tensor& s, const at::Tensor& z, const Rigid& frames,
                     const at::Tensor& mask);

 private:
  at::Tensor weights(const at::Tensor& s, const at::Tensor& z, const at::Tensor& keys,
                     const at::Tensor& queryPoints, const at::Tensor& keyPoints,
                     const at::Tensor& mask);

  std::int64_t heads, head, queryPoints, valuePoints;
  at::Tensor headWeights;
  Linear q;
  Points qPoints;
  Linear kv;
  Points kvPoints;
  Linear pairBias, output;
};
TORCH_MODULE(InvariantPointAttention);

} // namespace kiln::alphafold
