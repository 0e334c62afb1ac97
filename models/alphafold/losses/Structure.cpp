// See Structure.h.
#include "models/alphafold/losses/Structure.h"

#include "models/alphafold/losses/Fape.h"
#include "models/alphafold/model/Coordinates.h"

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

namespace {

/// Of sines and cosines as predicted, as they should be, and by the other names of atoms: a row's
/// weighted sum of how far they are off.
std::vector<Expr> anglesOff(const void*, const std::vector<Expr>& all) {
  const auto off = [&](std::size_t should) {
    return square(all[0] - all[should]) + square(all[1] - all[should + 1]);
  };
  return {sum(min(off(2), off(4)) * all[6])};
}

/// How far lengths are from 1.
std::vector<Expr> lengthsOff(const void*, const std::vector<Expr>& all) {
  return {sum(abs(sqrt(square(all[0]) + square(all[1]) + 1e-6) - 1) * all[2])};
}

} // namespace

Tensor torsionLoss(const PredictedStructure& found, const Inputs& truth) {
  constexpr int first = 3, count = 4; // chi angles among all seven
  static const FusedFunction offs(7, &anglesOff, nullptr, {.name = "angles_off"});
  static const FusedFunction lengths(3, &lengthsOff, nullptr, {.name = "lengths_off"});
  const auto chis = [](const Tensor& all, std::int64_t dim) { // as one dimension
    return all.narrow(dim, first, count).flatten(dim - 1, dim);
  };
  const Tensor mask = chis(truth.torsionAnglesMask, 1);
  Arguments angles;
  angles.addPlanes(chis(found.angles, 2)); // [L, 4 R]
  angles.addPlanes(chis(truth.torsionAnglesSinCos, 1));
  angles.addPlanes(chis(truth.altTorsionAnglesSinCos, 1));
  angles.add(mask);
  const Tensor there = truth.seqMask.unsqueeze(-1).expand({-1, found.rawAngles.size(2)}).flatten();
  Arguments raw;
  raw.addPlanes(found.rawAngles.flatten(1, 2)); // [L, 7 R]
  raw.add(there);
  const auto mean = [&](const Tensor& sums, const Tensor& weights) {
    return sums.sum() / (weights.sum() * double(sums.size(0)) + 1e-10);
  };
  return 0.5 * mean(angles.call(offs)[0], mask) + 0.01 * mean(raw.call(lengths)[0], there);
}

} // namespace kiln::alphafold
