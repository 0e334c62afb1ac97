// Losses of the heads: cross-entropies with what the truth, or the predicted structure, falls into.
// Sections 1.9.6 to 1.9.10 of the supplement. Results are scalars.
#pragma once

#include "models/alphafold/model/Heads.h"
#include "models/alphafold/model/Inputs.h"
#include "models/alphafold/model/StructureModule.h"

namespace kiln::alphafold {

/// Distances of CB atoms in bins up to 21.6875 angstrom.
at::Tensor distogramLoss(const at::Tensor& logits, const Inputs& truth);

/// Classes of hidden entries of the alignment.
at::Tensor maskedMsaLoss(const at::Tensor& logits, const Inputs& truth);

/// Bins of the lDDT that the structure has; 0 for a resolution outside of 0.1 to 3 angstrom.
at::Tensor lddtLoss(const at::Tensor& logits, const PredictedStructure& found, const Inputs& truth);

/// Which atoms were resolved, of those that a residue has; 0 for a resolution as above.
at::Tensor resolvedLoss(const at::Tensor& logits, const Inputs& truth);

/// Bins up to 31 angstrom of how far a residue is off, seen from another's frame; 0 for a
/// resolution as above.
at::Tensor alignedErrorLoss(const at::Tensor& logits, const PredictedStructure& found,
                            const Inputs& truth);

} // namespace kiln::alphafold
