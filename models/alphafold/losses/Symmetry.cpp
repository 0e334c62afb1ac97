// See Symmetry.h.
#include "models/alphafold/losses/Symmetry.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// [R, 14, R, 14] distances of all `atoms` from all `others`.
Tensor distances(const Tensor& atoms, const Tensor& others) {
  const Tensor apart = atoms.unsqueeze(2).unsqueeze(2) - others.unsqueeze(0).unsqueeze(0);
  return at::sqrt(apart.square().sum(-1) + 1e-10);
}

} // namespace

Renamed renamed(const Tensor& positions, const Inputs& truth) {
  const at::NoGradGuard constant;
  const Tensor predicted = distances(positions, positions);
  const Tensor known = truth.atom14GtExists;
  const Tensor moved = known * truth.atom14AtomIsAmbiguous;       // of the residue
  const Tensor fixed = known * (1 - truth.atom14AtomIsAmbiguous); // of the others
  const auto off = [&](const Tensor& atoms) {                     // [R]
    const Tensor should = distances(atoms, atoms);
    const Tensor difference = at::sqrt((predicted - should).square() + 1e-10);
    return (difference * moved.unsqueeze(2).unsqueeze(2) * fixed).sum({1, 2, 3});
  };
  const Tensor swapped =
      (off(truth.atom14AltGtPositions) < off(truth.atom14GtPositions)).to(positions.scalar_type());
  const auto chosen = [&](const Tensor& first, const Tensor& alternative) {
    std::vector<std::int64_t> sizes(std::size_t(first.dim()), 1);
    sizes[0] = -1;
    return at::where(swapped.view(sizes) > 0, alternative, first);
  };
  return {swapped, chosen(truth.atom14GtPositions, truth.atom14AltGtPositions),
          chosen(known, truth.atom14AltGtExists),
          Rigid::fromMatrix(chosen(truth.rigidgroupsGtFrames, truth.rigidgroupsAltGtFrames))};
}

} // namespace kiln::alphafold
