// Proteins that nobody has seen, and models of which every part counts.
#pragma once

#include "models/alphafold/model/AllAtom.h"
#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/model/Config.h"
#include "models/alphafold/model/Primitives.h"
#include "models/alphafold/train/Synthetic.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

/// Weights that are zero or one at first are drawn, so that every part counts.
inline void stir(torch::nn::Module& model, std::uint64_t seed, double deviation = 0.2) {
  const Seeded seeded(seed);
  const at::NoGradGuard constant;
  for (at::Tensor& parameter : model.parameters())
    parameter.add_(at::randn_like(parameter), deviation);
}

} // namespace kiln::alphafold
