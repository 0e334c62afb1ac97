// Features of a structure (supplement 1.2.1, 1.8.4, 1.9.3): each function reads what is named and
// adds features to a set, for any number of residues R. float32 and int64, angstrom; fields and
// their shapes are those of Fields.h.
#pragma once

#include "models/alphafold/features/Array.h"
#include "models/alphafold/features/Fields.h"

#include <span>

namespace kiln::alphafold {

using FeatureSet = Fields<Array>;

/// aatype [R] -> atom14_atom_exists, atom37_atom_exists, residx_atom14_to_atom37 and
/// residx_atom37_to_atom14: which atoms a residue of that type has, and where they stand in both
/// layouts (supplement 1.2.1, table 1; where there is no atom the index is 0).
void makeAtomMaps(FeatureSet& features);

/// aatype, all_atom_positions [R, 37, 3], all_atom_mask [R, 37] -> atom14_gt_positions and _exists,
/// atom14_alt_gt_positions and _exists with the names of atoms that a turn by 180 degrees exchanges
/// (supplement 1.8.5, table 3; Asp, Glu, Phe, Tyr), and atom14_atom_is_ambiguous.
void makeAtom14Positions(FeatureSet& features);

/// aatype, all_atom_positions, all_atom_mask -> rigidgroups_gt_frames [R, 8, 4, 4], _gt_exists,
/// _group_exists, _group_is_ambiguous and rigidgroups_alt_gt_frames (supplement 1.8.1 and algorithm
/// 21). A frame maps the group's coordinates of the idealised residue (table 2) to global ones; the
/// identity where its atoms were not seen.
void makeRigidGroups(FeatureSet& features);

/// rigidgroups_* -> backbone_rigid_tensor [R, 4, 4] and backbone_rigid_mask [R].
void makeBackbone(FeatureSet& features);

/// Torsion angles as sines and cosines [R, 7, 2], those of the other name of symmetric atoms, and a
/// mask [R, 7].
struct Torsions {
  Array<float> sinCos, altSinCos, mask;
};

/// Types [R] (0..20; others have no chi), positions [R * 37 * 3] and a mask [R * 37] -> pre-omega,
/// phi, psi and chi 1 to 4 (supplement 1.8.4, and 1.9.1 for the alternatives); psi, which is
/// measured at O, is mirrored. 0 and 0 where an atom was not seen. Residue r - 1 is taken for the
/// one before r.
Torsions torsionsOf(std::span<const std::int64_t> aatype, const float* positions,
                    const float* mask);

/// aatype, all_atom_positions, all_atom_mask -> torsion_angles_sin_cos, alt_torsion_angles_sin_cos,
/// torsion_angles_mask, and of their last four chi_angles_sin_cos and chi_mask.
void makeTorsionAngles(FeatureSet& features);

/// CB, of glycine CA: types [R], positions and mask as above -> places [R * 3] and mask [R]
/// (supplement 1.2.9 and 1.9.8).
void pseudoBetaOf(std::span<const std::int64_t> aatype, const float* positions, const float* mask,
                  float* places, float* seen);

/// aatype, all_atom_positions, all_atom_mask -> pseudo_beta, pseudo_beta_mask.
void makePseudoBeta(FeatureSet& features);

/// template_aatype [T, R], template_all_atom_positions, template_all_atom_mask ->
/// template_pseudo_beta[_mask], template_[alt_]torsion_angles_sin_cos, _mask (supplement 1.2.9,
/// table 1).
void makeTemplateGeometry(FeatureSet& features);

} // namespace kiln::alphafold
