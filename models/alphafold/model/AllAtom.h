// From torsion angles to atoms. Algorithm 24.
#pragma once

#include "models/alphafold/model/Rigid.h"

namespace kiln::alphafold {

/// Global frames [R, 8] of the rigid groups of residues `aatype` [R], whose backbones [R] are in
/// angstrom, with torsion angles [R, 7, 2] as (sine, cosine).
Rigid groupFrames(const Rigid& backbone, const at::Tensor& angles, const at::Tensor& aatype);

/// Positions [R, 14, 3] of atoms in groups' frames [R, 8]; zero where a residue has no such atom.
at::Tensor atomPositions(const Rigid& groups, const at::Tensor& aatype);

/// CB of each residue, CA of glycine, of positions [R, 14, 3]; [R, 3].
at::Tensor pseudoBeta(const at::Tensor& atom14, const at::Tensor& aatype);

} // namespace kiln::alphafold
