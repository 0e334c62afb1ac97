// What an earlier pass found, for the next one. Algorithm 32.
#pragma once

#include "models/alphafold/model/InputEmbedder.h"

namespace kiln::alphafold {

/// Of a pass: the first row of the alignment [R, msa], pairs [R, R, pair], and where CB atoms are
/// (CA of glycine) [R, 3], angstrom.
struct Recycled {
  at::Tensor m, z, positions;
};

/// Parameters: linear, layer_norm_m, layer_norm_z.
struct RecyclingEmbedderImpl : torch::nn::Module {
  explicit RecyclingEmbedderImpl(const ModelConfig& config);
  /// Added to `now`. Before the first pass all that was found is zero.
  Representations forward(const Representations& now, const Recycled& before);

  std::int64_t bins;
  Linear distances;
  LayerNorm normM, normZ;
};
TORCH_MODULE(RecyclingEmbedder);

} // namespace kiln::alphafold
