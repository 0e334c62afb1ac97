// A protein that nobody has seen: a random chain with consistent atoms, frames and angles, an
// alignment and templates of noise; the same for the same seed. For timing, and for tests.
#pragma once

#include "models/alphafold/model/Inputs.h"
#include "models/common/Draw.h"

namespace kiln::alphafold {

struct SyntheticSizes {
  std::int64_t residues = 7, clusters = 4, extra = 5, templates = 2, padding = 1;
};

/// Of random numbers of this seed, for a scope.
class Seeded {
 public:
  explicit Seeded(std::uint64_t seed);

 private:
  models::KeptRandom kept;
};

/// With templates unless sizes.templates is 0. The last `padding` residues are none.
Inputs syntheticInputs(const SyntheticSizes& sizes, std::uint64_t seed,
                       at::ScalarType dtype = at::kFloat);

/// Of the sequence and masks that are there: a structure, and what losses compare with.
void addTruth(Inputs& inputs, const SyntheticSizes& sizes, at::ScalarType dtype);

} // namespace kiln::alphafold
