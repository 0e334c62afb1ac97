// The twenty amino acids as tables of tensors: which atoms they have, how these hang together in
// rigid groups, and what distances between them are possible. Made from chemistry.json, whose
// numbers are AlphaFold's constants and, for bonds and angles, those of Engh and Huber 2001.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// Rows are residues in the order of chemistry.json, the 21st of an unknown one, which has no
/// atoms. Columns are 14 atoms in the order of each residue, or 8 rigid groups: backbone, omega,
/// phi, psi, chi 1 to 4. Lengths in angstrom.
struct AtomTables {
  at::Tensor groupRotations;    // [21, 8, 3, 3], of a group in the one that it hangs on
  at::Tensor groupTranslations; // [21, 8, 3]
  at::Tensor atomGroups;        // [21, 14, 8], 1: the atom's group
  at::Tensor atomPositions;     // [21, 14, 3], in the atom's group
  at::Tensor atomMask;          // [21, 14]
  at::Tensor atomRadii;         // [21, 14], van der Waals
  at::Tensor atom37;            // [21, 14] int64, the atom's place among all 37 kinds
  at::Tensor atom37Mask;        // [21, 37]
  at::Tensor chiMask;           // [21, 4]
  /// Distances that two atoms of a residue may have: not overlapping by more than 1.5, bonds and
  /// ends of angles within 12 standard deviations.
  at::Tensor lowest, highest; // [21, 14, 14]

  static constexpr std::int64_t glycine = 7, cysteine = 4, proline = 14;
};

/// Places of the backbone's atoms, both among 14 and among all 37.
struct Atom {
  static constexpr std::int64_t n = 0, ca = 1, c = 2;
};

/// As `like` in device and floating-point dtype. Made once each.
const AtomTables& atomTablesLike(const at::Tensor& like);

} // namespace kiln::alphafold
