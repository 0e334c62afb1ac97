// See TemplateFeatures.h.
#include "models/alphafold/model/TemplateFeatures.h"

#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/model/Primitives.h"
#include "models/alphafold/model/Rigid.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

Tensor outer(const Tensor& mask) {
  return mask.unsqueeze(-1) * mask.unsqueeze(-2);
}

} // namespace

Tensor templatePairFeatures(const Inputs& inputs, std::int64_t bins, std::int64_t aminoAcids,
                            bool unitVectors) {
  const Tensor positions = inputs.templateAllAtomPositions, mask = inputs.templateAllAtomMask;
  const std::int64_t residues = positions.size(1);
  const auto atom = [&](std::int64_t index) { return positions.select(2, index); };
  const Tensor backbone =
      outer(mask.select(2, Atom::n) * mask.select(2, Atom::ca) * mask.select(2, Atom::c));
  const Tensor kinds = at::one_hot(inputs.templateAatype, aminoAcids).to(positions.scalar_type());
  const auto along = [&](std::int64_t dim) { // each pair's residue of that dimension
    return kinds.unsqueeze(2 - dim).expand({-1, residues, residues, aminoAcids});
  };
  Tensor directions = at::zeros({positions.size(0), residues, residues, 3}, positions.options());
  if (unitVectors) {
    const Rigid frames = Rigid::fromThreePoints(atom(Atom::n), atom(Atom::ca), atom(Atom::c));
    directions = normalized(frames.unsqueeze(2).invertApply(atom(Atom::ca).unsqueeze(1)), 1e-6) *
                 backbone.unsqueeze(-1);
  }
  const Tensor beta = outer(inputs.templatePseudoBetaMask).unsqueeze(-1);
  const Tensor distances = distanceBins(inputs.templatePseudoBeta, 3.25, 50.75, bins);
  const Tensor both = backbone.unsqueeze(-1);
  return at::cat({distances, beta, along(1), along(0), directions, both}, -1) * both;
}

Tensor templateAngleFeatures(const Inputs& inputs, std::int64_t aminoAcids) {
  const Tensor& angles = inputs.templateTorsionAnglesSinCos;
  const Tensor kinds = at::one_hot(inputs.templateAatype, aminoAcids).to(angles.scalar_type());
  return at::cat({kinds, angles.flatten(-2), inputs.templateAltTorsionAnglesSinCos.flatten(-2),
                  inputs.templateTorsionAnglesMask},
                 -1);
}

} // namespace kiln::alphafold
