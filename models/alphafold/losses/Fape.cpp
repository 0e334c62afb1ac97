// See Fape.h.
#include "models/alphafold/losses/Fape.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

at::Tensor fape(const PointsInFrames& predicted, const PointsInFrames& truth,
                const Tensor& frameMask, const Tensor& pointMask, const Tensor& clamped) {
  constexpr double eps = 1e-4, clamp = 10, unit = 10;
  const auto seen = [](const PointsInFrames& all) { // [..., F, P, 3]
    const Rigid frames = {all.frames.rotation.unsqueeze(-3), all.frames.translation.unsqueeze(-2)};
    return frames.invertApply(all.points.unsqueeze(-3));
  };
  const Tensor apart = at::sqrt((seen(predicted) - seen(truth)).square().sum(-1) + eps);
  Tensor errors = apart.clamp_max(clamp);
  if (clamped.defined())
    errors = clamped * errors + (1 - clamped) * apart;
  const Tensor there = frameMask.unsqueeze(-1) * pointMask;
  const Tensor pairs = frameMask.sum() * pointMask.sum();
  return (errors * there).sum({-1, -2}) / (unit * (pairs + eps));
}

} // namespace kiln::alphafold
