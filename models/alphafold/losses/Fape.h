// Frame-aligned point error: how far points are from where they should be, as each residue sees
// them. Algorithm 28.
#pragma once

#include "models/alphafold/model/Rigid.h"

namespace kiln::alphafold {

/// Frames [..., F] and points [..., P, 3], with masks [F] and [P].
struct PointsInFrames {
  Rigid frames;
  at::Tensor points;
};

/// Mean over pairs that are there of |x - y| in units of 10 angstrom, where x and y are a point in
/// a frame as predicted and in truth; [...]. Distances are clamped at 10 angstrom where `clamped`,
/// a scalar, is 1 and are not where it is 0; undefined: clamped. Lengths in angstrom.
at::Tensor fape(const PointsInFrames& predicted, const PointsInFrames& truth,
                const at::Tensor& frameMask, const at::Tensor& pointMask,
                const at::Tensor& clamped = {});

} // namespace kiln::alphafold
