// What is told of templates: of each pair of residues, and of each residue's angles. Section 1.7.1
// and Table 1 of the supplement.
#pragma once

#include "models/alphafold/model/Inputs.h"

namespace kiln::alphafold {

/// Of all templates: distances of CB atoms in `bins` bins from 3.25 to 50.75 angstrom, whether both
/// are there, both amino acids (the second residue's first), the direction of the second's CA in
/// the first's frame (zeros unless `unitVectors`), whether both backbones are there; zero where
/// they are not. [T, R, R, bins + 2 aminoAcids + 5].
at::Tensor templatePairFeatures(const Inputs& inputs, std::int64_t bins, std::int64_t aminoAcids,
                                bool unitVectors);

/// Amino acid, seven angles as sine and cosine, their alternatives, and which are there.
/// [T, R, aminoAcids + 35].
at::Tensor templateAngleFeatures(const Inputs& inputs, std::int64_t aminoAcids);

} // namespace kiln::alphafold
