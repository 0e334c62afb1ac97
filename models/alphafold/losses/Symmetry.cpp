// See Symmetry.h.
#include "models/alphafold/losses/Symmetry.h"

#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// Of pairs of atoms that count, the atoms as predicted, and as they should be by two names: how
/// far distances are off by each, a row's sums.
std::vector<Expr> distancesOff(const void*, const std::vector<Expr>& all) {
  Operands next(all);
  const Expr counts = next.number();
  const Expr predicted = next.distanceOfPair();
  const auto off = [&](const Expr& should) {
    return sum(where(counts, sqrt(square(predicted - should) + 1e-10), 0));
  };
  const Expr first = next.distanceOfPair(), second = next.distanceOfPair();
  return {off(first), off(second)};
}

} // namespace

Renamed renamed(const Tensor& positions, const Inputs& truth) {
  const at::NoGradGuard constant;
  static const FusedFunction offs(19, &distancesOff, nullptr, {.name = "distances_off"});
  const Tensor known = truth.atom14GtExists;
  const Tensor moved = known * truth.atom14AtomIsAmbiguous;       // of the residue
  const Tensor fixed = known * (1 - truth.atom14AtomIsAmbiguous); // of the others
  Arguments all;
  all.add(at::logical_and(moved.flatten().unsqueeze(1), fixed.flatten()));
  for (const Tensor& atoms : {positions, truth.atom14GtPositions, truth.atom14AltGtPositions})
    all.addPairs(atoms.flatten(0, 1));
  const std::vector<Tensor> off = all.call(offs);
  const auto ofResidues = [&](const Tensor& atoms) { return atoms.view(known.sizes()).sum(1); };
  const Tensor swapped = (ofResidues(off[1]) < ofResidues(off[0])).to(positions.scalar_type());
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
