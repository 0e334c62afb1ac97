// See Violation.h.
#include "models/alphafold/losses/Violation.h"

#include "models/alphafold/model/AtomTables.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

constexpr int sulphur = 5; // of the 14 atoms of cysteine
constexpr double deviations = 12, overlap = 1.5;

struct Expected {
  double mean, deviation;
};
constexpr Expected bondToProline = {1.341, 0.016}, bondToOther = {1.329, 0.014},
                   cosineCaCN = {-0.4473, 0.0311}, cosineCNCa = {-0.5203, 0.0353};

Tensor excess(const Tensor& values, const Tensor& mean, const Tensor& deviation) {
  return at::relu(at::sqrt((values - mean).square() + 1e-6) - deviations * deviation);
}

Tensor masked(const Tensor& values, const Tensor& mask) {
  return (values * mask).sum() / (mask.sum() + 1e-6);
}

/// Of bonds and angles between each residue and the next, where the chain has no gap.
void neighbours(Violations& found, const Tensor& positions, const Tensor& atoms,
                const Inputs& inputs) {
  const std::int64_t count = positions.size(0) - 1;
  const auto here = [&](const Tensor& all, std::int64_t atom) {
    return all.narrow(0, 0, count).select(1, atom);
  };
  const auto next = [&](const Tensor& all, std::int64_t atom) {
    return all.narrow(0, 1, count).select(1, atom);
  };
  const auto vector = [](const Tensor& from, const Tensor& to) { return to - from; };
  const auto length = [](const Tensor& v) { return at::sqrt(v.square().sum(-1) + 1e-6); };
  const Tensor& index = inputs.residueIndex;
  const Tensor isNext = (index.narrow(0, 1, count) - index.narrow(0, 0, count)) == 1;
  const Tensor bonded = here(atoms, Atom::c) * next(atoms, Atom::n) * isNext;

  const Tensor cToN = vector(here(positions, Atom::c), next(positions, Atom::n));
  const Tensor isProline =
      (inputs.aatype.narrow(0, 1, count) == AtomTables::proline).to(positions.scalar_type());
  const auto between = [&](double other, double proline) {
    return other + (proline - other) * isProline;
  };
  found.bond = masked(excess(length(cToN), between(bondToOther.mean, bondToProline.mean),
                             between(bondToOther.deviation, bondToProline.deviation)),
                      bonded);

  const auto angle = [&](const Tensor& one, const Tensor& other, const Expected& expected,
                         const Tensor& there) {
    const Tensor cosine = (one * other).sum(-1) / (length(one) * length(other));
    const auto all = [&](double value) { return at::full_like(cosine, value); };
    return masked(excess(cosine, all(expected.mean), all(expected.deviation)), there);
  };
  const Tensor cToCa = vector(here(positions, Atom::c), here(positions, Atom::ca));
  const Tensor nToCa = vector(next(positions, Atom::n), next(positions, Atom::ca));
  found.angleCaCN = angle(cToCa, cToN, cosineCaCN, bonded * here(atoms, Atom::ca));
  found.angleCNCa = angle(-cToN, nToCa, cosineCNCa, bonded * next(atoms, Atom::ca));
}

/// Sum over pairs of atoms of two residues, each pair once.
Tensor overlaps(const Tensor& positions, const Tensor& atoms, const Inputs& inputs) {
  const auto pairs = [](const Tensor& one, const Tensor& other) { // [R, R, 14, 14]
    return one.unsqueeze(1).unsqueeze(3) * other.unsqueeze(0).unsqueeze(2);
  };
  const auto only = [&](std::int64_t atom) { // [1, 14]
    return (at::arange(14, inputs.aatype.options()) == atom)
        .to(positions.scalar_type())
        .unsqueeze(0);
  };
  const Tensor first = inputs.residueIndex.unsqueeze(1), second = inputs.residueIndex.unsqueeze(0);
  const auto residues = [](const Tensor& mask) { return mask.unsqueeze(-1).unsqueeze(-1); };
  const Tensor peptide = residues(first + 1 == second) * pairs(only(Atom::c), only(Atom::n));
  const Tensor cysteines = (inputs.aatype == AtomTables::cysteine).unsqueeze(-1) * only(sulphur);
  const Tensor mask = pairs(atoms, atoms) * residues(first < second) * (1 - peptide) *
                      (1 - pairs(cysteines, cysteines));
  const Tensor radii = atomTablesLike(positions).atomRadii.index_select(0, inputs.aatype);
  const Tensor least = radii.unsqueeze(1).unsqueeze(3) + radii.unsqueeze(0).unsqueeze(2) - overlap;
  const Tensor apart =
      positions.unsqueeze(1).unsqueeze(3) - positions.unsqueeze(0).unsqueeze(2); // ..., 3
  return (at::relu(least - at::sqrt(apart.square().sum(-1) + 1e-10)) * mask).sum();
}

/// Sum over pairs of atoms of one residue, each pair twice.
Tensor insideResidues(const Tensor& positions, const Tensor& atoms, const Tensor& aatype) {
  const AtomTables& tables = atomTablesLike(positions);
  const Tensor apart = positions.unsqueeze(2) - positions.unsqueeze(1);
  const Tensor distance = at::sqrt(apart.square().sum(-1) + 1e-10);
  const Tensor mask = atoms.unsqueeze(2) * atoms.unsqueeze(1) * (1 - at::eye(14, atoms.options()));
  const Tensor below = at::relu(tables.lowest.index_select(0, aatype) - distance);
  const Tensor above = at::relu(distance - tables.highest.index_select(0, aatype));
  return ((below + above) * mask).sum();
}

} // namespace

Tensor Violations::total() const {
  return bond + angleCaCN + angleCNCa + clash;
}

Violations violations(const Tensor& positions, const Inputs& inputs) {
  const Tensor atoms = atomTablesLike(positions).atomMask.index_select(0, inputs.aatype) *
                       inputs.seqMask.unsqueeze(-1);
  Violations found;
  neighbours(found, positions, atoms, inputs);
  const Tensor sum =
      overlaps(positions, atoms, inputs) + insideResidues(positions, atoms, inputs.aatype);
  found.clash = 2 * sum / (atoms.sum() + 1e-6);
  return found;
}

} // namespace kiln::alphafold
