// How good a structure is, by CA atoms: what is reported in validation.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// Scalars. lDDT, GDT-TS and GDT-HA from 0 to 1, dRMSD in angstrom.
struct Metrics {
  at::Tensor lddt;         // local distance difference test, the mean over residues
  at::Tensor drmsd;        // root mean square difference of all distances
  at::Tensor gdtTs, gdtHa; // global distance test after one superposition of all atoms
};

/// Of CA positions [R, 3] in angstrom where mask [R] is 1. Two residues at least are needed for a
/// meaning.
Metrics metrics(const at::Tensor& positions, const at::Tensor& truth, const at::Tensor& mask);

/// Positions turned and shifted onto the truth with the least sum of squared distances over what is
/// masked in. Kabsch 1976.
at::Tensor superposed(const at::Tensor& positions, const at::Tensor& truth, const at::Tensor& mask);

} // namespace kiln::alphafold
