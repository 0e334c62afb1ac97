// Atoms that chemistry cannot tell apart (as the two oxygens of ASP) may have either name: the
// truth takes those that fit the prediction better. Algorithm 26.
#pragma once

#include "models/alphafold/model/Inputs.h"
#include "models/alphafold/model/Rigid.h"

namespace kiln::alphafold {

/// The truth under the names that fit.
struct Renamed {
  at::Tensor swapped;   // [R], 1: the alternative
  at::Tensor positions; // [R, 14, 3]
  at::Tensor exists;    // [R, 14]
  Rigid groups;         // [R, 8]
};

/// By positions [R, 14, 3]: that naming of a residue's ambiguous atoms is taken whose distances to
/// all other residues' unambiguous atoms are off by less in sum. Without gradients.
Renamed renamed(const at::Tensor& positions, const Inputs& truth);

} // namespace kiln::alphafold
