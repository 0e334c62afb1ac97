// See Violation.h.
#include "models/alphafold/losses/Violation.h"

#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

constexpr int sulphur = 5; // of the 14 atoms of cysteine
constexpr double deviations = 12;

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

/// Of pairs of atoms that count, radii and places: a row's sum of how much they overlap.
std::vector<Expr> overlapsOf(const void*, const std::vector<Expr>& all) {
  constexpr double allowed = 1.5;
  Operands next(all);
  const Expr counts = next.number(), radius = next.number(), other = next.number();
  return {sum(where(counts, relu(radius + other - allowed - next.distanceOfPair()), 0))};
}

/// Which pairs of atoms of two residues may not overlap, each pair once: [14 R, 14 R].
Tensor strangers(const Tensor& atoms, const Inputs& inputs) {
  const auto pairs = [](const Tensor& one, const Tensor& other) { // [R, 14, R, 14]
    return at::logical_and(one.unsqueeze(-1).unsqueeze(-1), other);
  };
  const auto only = [&](std::int64_t atom) { // [1, 14]
    return (at::arange(14, inputs.aatype.options()) == atom).unsqueeze(0);
  };
  const auto residues = [](const Tensor& mask) { return mask.unsqueeze(-1).unsqueeze(1); };
  const Tensor first = inputs.residueIndex.unsqueeze(1), second = inputs.residueIndex.unsqueeze(0);
  const Tensor peptide =
      at::logical_and(residues(first + 1 == second), pairs(only(Atom::c), only(Atom::n)));
  const Tensor cysteines =
      at::logical_and((inputs.aatype == AtomTables::cysteine).unsqueeze(-1), only(sulphur));
  const Tensor may = at::logical_or(peptide, pairs(cysteines, cysteines));
  const Tensor apart = at::logical_and(pairs(atoms, atoms), residues(first < second));
  return at::logical_and(apart, at::logical_not(may)).flatten(2, 3).flatten(0, 1);
}

Tensor overlaps(const Tensor& positions, const Tensor& atoms, const Inputs& inputs) {
  static const FusedFunction function(9, &overlapsOf, nullptr, {.name = "atoms_overlap"});
  const Tensor radii = atomTablesLike(positions).atomRadii.index_select(0, inputs.aatype).flatten();
  Arguments all;
  all.add(strangers(atoms, inputs));
  all.add(radii.unsqueeze(-1));
  all.add(radii);
  all.addPairs(positions.flatten(0, 1));
  return all.call(function)[0].sum();
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
