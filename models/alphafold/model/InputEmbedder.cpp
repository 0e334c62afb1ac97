// See InputEmbedder.h.
#include "models/alphafold/model/InputEmbedder.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

InputEmbedderImpl::InputEmbedderImpl(const ModelConfig& config)
    : reach(config.relativePositions),
      first(register_module("linear_tf_z_i", Linear(config.targetFeatures, config.pair))),
      second(register_module("linear_tf_z_j", Linear(config.targetFeatures, config.pair))),
      target(register_module("linear_tf_m", Linear(config.targetFeatures, config.msa))),
      msa(register_module("linear_msa_m", Linear(config.msaFeatures, config.msa))),
      positions(register_module("linear_relpos", Linear(2 * reach + 1, config.pair))) {}

Representations InputEmbedderImpl::forward(const Inputs& inputs) {
  const Tensor &features = inputs.targetFeat, &index = inputs.residueIndex;
  const Tensor apart = (index.unsqueeze(1) - index.unsqueeze(0)).clamp(-reach, reach) + reach;
  const Tensor encoded = at::one_hot(apart, 2 * reach + 1).to(features.scalar_type());
  const Tensor pairs = first(features).unsqueeze(1) + second(features).unsqueeze(0);
  return {msa(inputs.msaFeat) + target(features), pairs + positions(encoded)};
}

} // namespace kiln::alphafold
