// See RecyclingEmbedder.h.
#include "models/alphafold/model/RecyclingEmbedder.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

RecyclingEmbedderImpl::RecyclingEmbedderImpl(const ModelConfig& config)
    : bins(config.recyclingBins), distances(register_module("linear", Linear(bins, config.pair))),
      normM(register_module("layer_norm_m", LayerNorm(config.msa))),
      normZ(register_module("layer_norm_z", LayerNorm(config.pair))) {}

Representations RecyclingEmbedderImpl::forward(const Representations& now, const Recycled& before) {
  const Tensor encoded = distanceBins(before.positions, 3.25, 20.75, bins);
  const Tensor first = now.m.slice(0, 0, 1) + normM(before.m);
  return {at::cat({first, now.m.slice(0, 1)}), now.z + normZ(before.z) + distances(encoded)};
}

} // namespace kiln::alphafold
