// See Synthetic.h.
#include "models/alphafold/train/Synthetic.h"

#include "models/alphafold/model/AllAtom.h"
#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/model/Primitives.h"

#include <ATen/ATen.h>

#include <numbers>

namespace kiln::alphafold {

Seeded::Seeded(std::uint64_t seed) : kept(at::kCPU) {
  at::manual_seed(seed);
}

namespace {

at::Tensor drawnAngles(at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor angles = at::rand(sizes, dtype) * 2 * std::numbers::pi;
  return at::stack({angles.sin(), angles.cos()}, -1);
}

/// Swaps the atoms of ASP, GLU, PHE and TYR that have no order of their own; [R, 14, ...]. With
/// ambiguity [R, 14] if there is no tensor.
at::Tensor swappedAtoms(const at::Tensor& aatype, const at::Tensor& atoms) {
  struct Swap {
    std::int64_t residue, first, second;
  };
  constexpr Swap swaps[] = {{3, 6, 7}, {6, 7, 8}, {13, 6, 7}, {13, 8, 9}, {18, 6, 7}, {18, 8, 9}};
  at::Tensor result = atoms.defined() ? atoms.clone() : at::zeros({aatype.size(0), 14});
  for (std::int64_t r = 0; r < aatype.size(0); ++r)
    for (const Swap& swap : swaps)
      if (aatype[r].item<std::int64_t>() == swap.residue) {
        result[r][swap.first] = atoms.defined() ? atoms[r][swap.second] : at::ones({});
        result[r][swap.second] = atoms.defined() ? atoms[r][swap.first] : at::ones({});
      }
  return result;
}

void addTemplates(Inputs& inputs, const SyntheticSizes& sizes, at::ScalarType dtype) {
  const std::int64_t t = sizes.templates, r = sizes.residues;
  inputs.templateMask = at::ones({t}, dtype);
  inputs.templateAatype = at::randint(0, 22, {t, r}, at::kLong);
  inputs.templatePseudoBeta = at::randn({t, r, 3}, dtype) * 8;
  const auto mask = [&](const at::Tensor& like) { // nothing where the chain is padded
    return (at::rand_like(like) < 0.8) * like;
  };
  const at::Tensor there = inputs.seqMask.unsqueeze(-1);
  inputs.templatePseudoBetaMask = mask(inputs.seqMask.expand({t, r}));
  inputs.templateAllAtomPositions = at::randn({t, r, 37, 3}, dtype) * 8;
  inputs.templateAllAtomMask = mask(there.expand({t, r, 37}));
  inputs.templateTorsionAnglesSinCos = drawnAngles({t, r, 7}, dtype);
  inputs.templateAltTorsionAnglesSinCos = drawnAngles({t, r, 7}, dtype);
  inputs.templateTorsionAnglesMask = mask(there.expand({t, r, 7}));
}

} // namespace

void addTruth(Inputs& inputs, const SyntheticSizes& sizes, at::ScalarType dtype) {
  const std::int64_t residues = sizes.residues;
  const at::Tensor there = inputs.seqMask;
  // Steps of 3.8 angstrom along a line that turns.
  const at::Tensor step =
      normalized(at::randn({residues, 3}, dtype) + at::tensor({1.5, 0.0, 0.0}, dtype));
  Rigid backbone = Rigid::fromUpdate(at::randn({residues, 6}, dtype));
  backbone.translation = at::cumsum(step * 3.8, 0);
  const AtomTables& tables = atomTablesLike(there);
  const at::Tensor exists = tables.atomMask.index_select(0, inputs.aatype) * there.unsqueeze(-1);
  const at::Tensor chis = tables.chiMask.index_select(0, inputs.aatype) * there.unsqueeze(-1);
  const auto all = [&](const at::Tensor& angles) {
    const Rigid groups = groupFrames(backbone, angles, inputs.aatype);
    return std::pair(groups.matrix(), atomPositions(groups, inputs.aatype));
  };
  inputs.torsionAnglesSinCos = drawnAngles({residues, 7}, dtype);
  const at::Tensor symmetric = swappedAtoms(inputs.aatype, {}).sum(-1) > 0; // chi 2, or 3 of GLU
  inputs.altTorsionAnglesSinCos = inputs.torsionAnglesSinCos.clone();
  for (std::int64_t r = 0; r < residues; ++r)
    if (symmetric[r].item<bool>())
      inputs.altTorsionAnglesSinCos[r][inputs.aatype[r].item<std::int64_t>() == 6 ? 5 : 4].neg_();
  inputs.torsionAnglesMask = at::cat({there.unsqueeze(-1).expand({residues, 3}), chis}, -1);
  std::tie(inputs.rigidgroupsGtFrames, inputs.atom14GtPositions) = all(inputs.torsionAnglesSinCos);
  inputs.rigidgroupsAltGtFrames = all(inputs.altTorsionAnglesSinCos).first;
  inputs.rigidgroupsGtExists =
      at::cat({there.unsqueeze(-1).expand({residues, 4}), chis}, -1).contiguous();
  inputs.atom14GtExists = exists;
  inputs.atom14AtomIsAmbiguous = swappedAtoms(inputs.aatype, {}).to(dtype);
  inputs.atom14AltGtPositions = swappedAtoms(inputs.aatype, inputs.atom14GtPositions);
  inputs.atom14AltGtExists = swappedAtoms(inputs.aatype, exists);
  inputs.pseudoBeta = pseudoBeta(inputs.atom14GtPositions, inputs.aatype);
  inputs.pseudoBetaMask = there.clone();
  const at::Tensor places = tables.atom37.index_select(0, inputs.aatype);
  const at::Tensor shown = exists.unsqueeze(-1);
  inputs.allAtomPositions = at::zeros({residues, 37, 3}, dtype)
                                .scatter_add(1, places.unsqueeze(-1).expand({residues, 14, 3}),
                                             inputs.atom14GtPositions * shown);
  inputs.allAtomMask = at::zeros({residues, 37}, dtype).scatter_add(1, places, exists);
  inputs.bertMask = (at::rand({sizes.clusters, residues}, dtype) < 0.4).to(dtype);
  inputs.trueMsa = at::randint(0, 23, {sizes.clusters, residues}, at::kLong);
  inputs.resolution = at::scalar_tensor(2.0, dtype);
  inputs.useClampedFape = at::scalar_tensor(1.0, dtype);
}

Inputs syntheticInputs(const SyntheticSizes& sizes, std::uint64_t seed, at::ScalarType dtype) {
  const Seeded seeded(seed);
  const std::int64_t r = sizes.residues;
  Inputs inputs;
  inputs.aatype = at::randint(0, 20, {r}, at::kLong);
  inputs.residueIndex = at::arange(r, at::kLong);
  inputs.seqMask = (inputs.residueIndex < r - sizes.padding).to(dtype);
  const auto masked = [&](std::int64_t rows) {
    return inputs.seqMask.expand({rows, r}).contiguous();
  };
  inputs.targetFeat = at::randn({r, 22}, dtype);
  inputs.msaFeat = at::randn({sizes.clusters, r, 49}, dtype);
  inputs.msaMask = masked(sizes.clusters);
  inputs.extraMsaFeat = at::randn({sizes.extra, r, 25}, dtype);
  inputs.extraMsaMask = masked(sizes.extra);
  if (sizes.templates > 0)
    addTemplates(inputs, sizes, dtype);
  addTruth(inputs, sizes, dtype);
  return inputs;
}

} // namespace kiln::alphafold
