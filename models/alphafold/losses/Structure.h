// Losses of the structure module: frames and atoms, side chains' angles. Section 1.9.2 and 1.9.1,
// Algorithm 27.
#pragma once

#include "models/alphafold/losses/Symmetry.h"
#include "models/alphafold/model/StructureModule.h"

namespace kiln::alphafold {

/// FAPE of CA atoms in backbone frames, the mean over layers; clamped as the inputs say.
at::Tensor backboneFape(const PredictedStructure& found, const Inputs& truth);

/// FAPE of all atoms in the frames of all rigid groups, of the last layer; clamped.
at::Tensor sidechainFape(const PredictedStructure& found, const Renamed& truth,
                         const Inputs& inputs);

/// 0.5 times the squared distance on the unit circle from the nearer of true and alternative angle,
/// plus 0.01 times how far the raw (sine, cosine) are from length 1; means over all layers. As in
/// the published code only chi angles are compared: FAPE sees the backbone's.
at::Tensor torsionLoss(const PredictedStructure& found, const Inputs& truth);

} // namespace kiln::alphafold
