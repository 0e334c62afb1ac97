// From features to the first representations of the alignment and of pairs. Algorithms 3, 4 and 5.
#pragma once

#include "models/alphafold/model/Config.h"
#include "models/alphafold/model/Inputs.h"
#include "models/alphafold/model/Primitives.h"

namespace kiln::alphafold {

/// What blocks pass on: the alignment m [S, R, channels] and pairs z [R, R, pair].
struct Representations {
  at::Tensor m, z;
};

/// Algorithm 3, with relpos (4) and its one-hot encoding (5). Parameters: linear_tf_z_i,
/// linear_tf_z_j, linear_tf_m, linear_msa_m, linear_relpos.
struct InputEmbedderImpl : torch::nn::Module {
  explicit InputEmbedderImpl(const ModelConfig& config);
  Representations forward(const Inputs& inputs);

  std::int64_t reach; // residues to either side whose distance along the chain is told apart
  Linear first, second, target, msa, positions;
};
TORCH_MODULE(InputEmbedder);

} // namespace kiln::alphafold
