// How well distances are preserved: the local distance difference test of CA atoms. Mariani et al.
// 2013, section 1.9.6 of the supplement.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// Of each residue [R], 0 to 1: among true distances below 15 angstrom to others, which share is
/// off by less than 0.5, 1, 2 and 4 angstrom, on average. Positions [R, 3] in angstrom, mask [R].
at::Tensor lddt(const at::Tensor& positions, const at::Tensor& truth, const at::Tensor& mask);

} // namespace kiln::alphafold
