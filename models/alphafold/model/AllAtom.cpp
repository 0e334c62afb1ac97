// See AllAtom.h.
#include "models/alphafold/model/AllAtom.h"

#include "models/alphafold/model/AtomTables.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

Rigid groupFrames(const Rigid& backbone, const Tensor& angles, const Tensor& aatype) {
  const AtomTables& tables = atomTablesLike(angles);
  const Rigid hinges = {tables.groupRotations.index_select(0, aatype).narrow(1, 1, 7),
                        tables.groupTranslations.index_select(0, aatype).narrow(1, 1, 7)};
  const Rigid turned = hinges.compose(Rigid::turnAboutX(angles));
  std::vector<Rigid> groups = {backbone};
  for (std::int64_t i = 0; i < 7; ++i) { // a second, third, fourth chi hangs on the one before
    const Rigid& from = i < 4 ? backbone : groups.back();
    groups.push_back(from.compose(turned.select(1, i)));
  }
  const Rigid all = stack(groups);
  return {all.rotation.transpose(0, 1), all.translation.transpose(0, 1)};
}

/// By products with one-hot rows, whose gradient sums in a fixed order; elementwise, in full
/// precision.
Tensor atomPositions(const Rigid& groups, const Tensor& aatype) {
  const AtomTables& tables = atomTablesLike(groups.translation);
  const auto ofAtoms = [&](const Tensor& table) { return table.index_select(0, aatype); };
  const Tensor chosen = ofAtoms(tables.atomGroups); // [R, 14, 8]
  const Rigid frames = {(chosen.unsqueeze(-1).unsqueeze(-1) * groups.rotation.unsqueeze(1)).sum(2),
                        (chosen.unsqueeze(-1) * groups.translation.unsqueeze(1)).sum(2)};
  return frames.apply(ofAtoms(tables.atomPositions)) * ofAtoms(tables.atomMask).unsqueeze(-1);
}

Tensor pseudoBeta(const Tensor& atom14, const Tensor& aatype) {
  constexpr int cb = 4; // of the 14 atoms of all others
  const Tensor isGlycine = (aatype == AtomTables::glycine).unsqueeze(-1);
  return at::where(isGlycine, atom14.select(1, Atom::ca), atom14.select(1, cb));
}

} // namespace kiln::alphafold
