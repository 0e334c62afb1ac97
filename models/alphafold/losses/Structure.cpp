// See Structure.h.
#include "models/alphafold/losses/Structure.h"

#include "models/alphafold/losses/Fape.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

Tensor backboneFape(const PredictedStructure& found, const Inputs& truth) {
  const Rigid frames = stack(found.backbones); // [L, R]
  const Rigid should = Rigid::fromMatrix(truth.rigidgroupsGtFrames.select(1, 0));
  const Tensor mask = truth.rigidgroupsGtExists.select(1, 0);
  return fape({frames, frames.translation}, {should, should.translation}, mask, mask,
              truth.useClampedFape)
      .mean();
}

Tensor sidechainFape(const PredictedStructure& found, const Renamed& truth, const Inputs& inputs) {
  return fape({found.groups.flattened(), found.positions.flatten(0, 1)},
              {truth.groups.flattened(), truth.positions.flatten(0, 1)},
              inputs.rigidgroupsGtExists.flatten(), truth.exists.flatten());
}

Tensor torsionLoss(const PredictedStructure& found, const Inputs& truth) {
  constexpr int first = 3, count = 4; // chi angles among all seven
  const auto chis = [](const Tensor& all, std::int64_t dim) {
    return all.narrow(dim, first, count);
  };
  const Tensor angles = chis(found.angles, 2); // [L, R, 4, 2]
  const auto off = [&](const Tensor& should) {
    return (angles - chis(should, 1)).square().sum(-1);
  };
  const Tensor nearer =
      at::minimum(off(truth.torsionAnglesSinCos), off(truth.altTorsionAnglesSinCos));
  const auto mean = [](const Tensor& values, const Tensor& mask) {
    const Tensor weights = mask.expand_as(values);
    return (values * weights).sum() / (weights.sum() + 1e-10);
  };
  const Tensor length = at::sqrt(found.rawAngles.square().sum(-1) + 1e-6);
  return 0.5 * mean(nearer, chis(truth.torsionAnglesMask, 1)) +
         0.01 * mean(at::abs(length - 1), truth.seqMask.unsqueeze(-1));
}

} // namespace kiln::alphafold
