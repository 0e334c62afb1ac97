// The features of training examples, defined once for two kinds of arrays: an example's own arrays
// (Example.h, no LibTorch) and a batch's tensors (Batch.h). Names are those of AlphaFold 2's
// supplement (1.2) and of OpenFold's feature dictionary, in camel case here and in snake case from
// forEachField().
//
// R residues of a crop, S rows of the clustered MSA, E rows of the extra MSA, T templates, P passes
// of recycling. Shapes are an example's; in a batch a size B comes before them, behind P where
// there is one: msaFeat is [P, S, R, 49] of an example and [P, B, S, R, 49] of a batch. Lengths are
// in angstrom. What is padded is zero, in masks too. Residue types 0 to 19 are in the order
// ARNDCQEGHILKMFPSTWYV, 20 is unknown, and in MSAs 21 is a gap and 22 the mask token.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::alphafold {

/// Of<T> is a dense array of T, which is float or std::int64_t.
template <template <typename> typename Of> struct Fields {
  // Of the sequence.
  Of<std::int64_t> aatype;       // [R] 0..20
  Of<std::int64_t> residueIndex; // [R] place in the whole chain, from 0
  Of<float> seqMask;             // [R] 1 where there is a residue, 0 where there is padding
  Of<float> targetFeat;          // [R, 22] 0 (no break of the chain), then aatype one-hot

  // Of the MSA, drawn anew for each pass of recycling.
  Of<float> msaFeat;        // [P, S, R, 49] one-hot 23, has deletion, deletion value, cluster's
                            // profile 23, cluster's mean deletion value
  Of<float> msaMask;        // [P, S, R]
  Of<std::int64_t> trueMsa; // [P, S, R] 0..22, before masking
  Of<float> bertMask;       // [P, S, R] 1 where the masked-MSA loss counts
  Of<float> extraMsaFeat;   // [P, E, R, 25] one-hot 23, has deletion, deletion value
  Of<float> extraMsaMask;   // [P, E, R]

  // Of templates. Those that are missing have templateMask 0.
  Of<float> templateMask;                   // [T]
  Of<float> templateSumProbs;               // [T] HHsearch's sum of probabilities
  Of<std::int64_t> templateAatype;          // [T, R] 0..20 and 21 where nothing is aligned
  Of<float> templateAllAtomPositions;       // [T, R, 37, 3]
  Of<float> templateAllAtomMask;            // [T, R, 37]
  Of<float> templatePseudoBeta;             // [T, R, 3] CB, of glycine CA
  Of<float> templatePseudoBetaMask;         // [T, R]
  Of<float> templateTorsionAnglesSinCos;    // [T, R, 7, 2]
  Of<float> templateAltTorsionAnglesSinCos; // [T, R, 7, 2]
  Of<float> templateTorsionAnglesMask;      // [T, R, 7]

  // Which atoms residues have, and where: atom14 is dense by residue type, atom37 by atom name.
  Of<float> atom14AtomExists;            // [R, 14]
  Of<float> atom37AtomExists;            // [R, 37]
  Of<std::int64_t> residxAtom14ToAtom37; // [R, 14] place in atom37 of each of the 14, or 0
  Of<std::int64_t> residxAtom37ToAtom14; // [R, 37] place in atom14 of each of the 37, or 0

  // The structure that is to be predicted.
  Of<float> allAtomPositions;            // [R, 37, 3]
  Of<float> allAtomMask;                 // [R, 37] 1 where the experiment saw the atom
  Of<float> atom14GtPositions;           // [R, 14, 3]
  Of<float> atom14GtExists;              // [R, 14]
  Of<float> atom14AltGtPositions;        // [R, 14, 3] with the names of symmetric atoms exchanged
  Of<float> atom14AltGtExists;           // [R, 14]
  Of<float> atom14AtomIsAmbiguous;       // [R, 14] 1 where the exchange moves an atom
  Of<float> rigidgroupsGtFrames;         // [R, 8, 4, 4] to global coordinates, by column vectors
  Of<float> rigidgroupsGtExists;         // [R, 8]
  Of<float> rigidgroupsGroupExists;      // [R, 8] by residue type alone
  Of<float> rigidgroupsGroupIsAmbiguous; // [R, 8]
  Of<float> rigidgroupsAltGtFrames;      // [R, 8, 4, 4] with the names of symmetric atoms exchanged
  Of<float> torsionAnglesSinCos;         // [R, 7, 2] pre-omega, phi, psi, chi 1 to 4
  Of<float> altTorsionAnglesSinCos;      // [R, 7, 2] turned by pi where the chi is pi-periodic
  Of<float> torsionAnglesMask;           // [R, 7]
  Of<float> chiAnglesSinCos;             // [R, 4, 2] the last four torsions
  Of<float> chiMask;                     // [R, 4]
  Of<float> pseudoBeta;                  // [R, 3] CB, of glycine CA
  Of<float> pseudoBetaMask;              // [R]
  Of<float> backboneRigidTensor;         // [R, 4, 4] rigid group 0
  Of<float> backboneRigidMask;           // [R]

  // Of the whole example.
  Of<std::int64_t> seqLength; // [] residues of the crop that are no padding
  Of<float> resolution;       // [] 0 if the experiment has none
  Of<float> isDistillation;   // [] 1: the structure is a prediction
  Of<float> useClampedFape;   // [] 1: backbone FAPE is clamped, 0: it is not
};

/// Calls f(name, isPerPass, sets.field...) for each field, in the order above.
template <typename F, typename... Sets> void forEachField(F f, Sets&... sets) {
  f("aatype", false, sets.aatype...);
  f("residue_index", false, sets.residueIndex...);
  f("seq_mask", false, sets.seqMask...);
  f("target_feat", false, sets.targetFeat...);
  f("msa_feat", true, sets.msaFeat...);
  f("msa_mask", true, sets.msaMask...);
  f("true_msa", true, sets.trueMsa...);
  f("bert_mask", true, sets.bertMask...);
  f("extra_msa_feat", true, sets.extraMsaFeat...);
  f("extra_msa_mask", true, sets.extraMsaMask...);
  f("template_mask", false, sets.templateMask...);
  f("template_sum_probs", false, sets.templateSumProbs...);
  f("template_aatype", false, sets.templateAatype...);
  f("template_all_atom_positions", false, sets.templateAllAtomPositions...);
  f("template_all_atom_mask", false, sets.templateAllAtomMask...);
  f("template_pseudo_beta", false, sets.templatePseudoBeta...);
  f("template_pseudo_beta_mask", false, sets.templatePseudoBetaMask...);
  f("template_torsion_angles_sin_cos", false, sets.templateTorsionAnglesSinCos...);
  f("template_alt_torsion_angles_sin_cos", false, sets.templateAltTorsionAnglesSinCos...);
  f("template_torsion_angles_mask", false, sets.templateTorsionAnglesMask...);
  f("atom14_atom_exists", false, sets.atom14AtomExists...);
  f("atom37_atom_exists", false, sets.atom37AtomExists...);
  f("residx_atom14_to_atom37", false, sets.residxAtom14ToAtom37...);
  f("residx_atom37_to_atom14", false, sets.residxAtom37ToAtom14...);
  f("all_atom_positions", false, sets.allAtomPositions...);
  f("all_atom_mask", false, sets.allAtomMask...);
  f("atom14_gt_positions", false, sets.atom14GtPositions...);
  f("atom14_gt_exists", false, sets.atom14GtExists...);
  f("atom14_alt_gt_positions", false, sets.atom14AltGtPositions...);
  f("atom14_alt_gt_exists", false, sets.atom14AltGtExists...);
  f("atom14_atom_is_ambiguous", false, sets.atom14AtomIsAmbiguous...);
  f("rigidgroups_gt_frames", false, sets.rigidgroupsGtFrames...);
  f("rigidgroups_gt_exists", false, sets.rigidgroupsGtExists...);
  f("rigidgroups_group_exists", false, sets.rigidgroupsGroupExists...);
  f("rigidgroups_group_is_ambiguous", false, sets.rigidgroupsGroupIsAmbiguous...);
  f("rigidgroups_alt_gt_frames", false, sets.rigidgroupsAltGtFrames...);
  f("torsion_angles_sin_cos", false, sets.torsionAnglesSinCos...);
  f("alt_torsion_angles_sin_cos", false, sets.altTorsionAnglesSinCos...);
  f("torsion_angles_mask", false, sets.torsionAnglesMask...);
  f("chi_angles_sin_cos", false, sets.chiAnglesSinCos...);
  f("chi_mask", false, sets.chiMask...);
  f("pseudo_beta", false, sets.pseudoBeta...);
  f("pseudo_beta_mask", false, sets.pseudoBetaMask...);
  f("backbone_rigid_tensor", false, sets.backboneRigidTensor...);
  f("backbone_rigid_mask", false, sets.backboneRigidMask...);
  f("seq_length", false, sets.seqLength...);
  f("resolution", false, sets.resolution...);
  f("is_distillation", false, sets.isDistillation...);
  f("use_clamped_fape", false, sets.useClampedFape...);
}

} // namespace kiln::alphafold
