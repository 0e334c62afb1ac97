// Violations of chemistry in what was predicted: bonds between residues, angles at them, atoms that
// overlap, distances within a residue. Section 1.9.11 of the supplement.
#pragma once

#include "models/alphafold/model/Inputs.h"

namespace kiln::alphafold {

/// Scalars. Bonds and angles: what exceeds 12 standard deviations, mean over neighbours along the
/// chain (angles by their cosines). Clashes: what atoms of different residues overlap by more than
/// 1.5 angstrom, and what distances within a residue leave their bounds by, summed over the atoms
/// at both ends and divided by the number of atoms. Sulphurs of two cysteines may bond and do not
/// clash.
struct Violations {
  at::Tensor bond, angleCaCN, angleCNCa, clash;

  at::Tensor total() const;
};

/// Of positions [R, 14, 3], angstrom; of the inputs only sequence, index and mask are read.
Violations violations(const at::Tensor& positions, const Inputs& inputs);

} // namespace kiln::alphafold
