// What the model reads and its losses compare with: one protein, cropped and padded, for one
// recycling pass. Members are named as in OpenFold's dictionary of features, and each() tells those
// names. Without a batch dimension: R residues, S clusters, E extra sequences, T templates.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln::alphafold {

struct Inputs {
  // The sequence.
  at::Tensor aatype;       // [R] int64, 0 to 19 as in chemistry.json, 20: unknown
  at::Tensor residueIndex; // [R] int64
  at::Tensor seqMask;      // [R], 1: a residue, 0: padding
  at::Tensor targetFeat;   // [R, 22]

  // The alignment.
  at::Tensor msaFeat;      // [S, R, 49]
  at::Tensor msaMask;      // [S, R]
  at::Tensor extraMsaFeat; // [E, R, 25]
  at::Tensor extraMsaMask; // [E, R]

  // Templates; all undefined: there are none, and the alignment has no rows of theirs.
  at::Tensor templateMask;                // [T]
  at::Tensor templateAatype;              // [T, R] int64, 21: gap
  at::Tensor templatePseudoBeta;          // [T, R, 3], angstrom
  at::Tensor templatePseudoBetaMask;      // [T, R]
  at::Tensor templateAllAtomPositions;    // [T, R, 37, 3], angstrom
  at::Tensor templateAllAtomMask;         // [T, R, 37]
  at::Tensor templateTorsionAnglesSinCos; // [T, R, 7, 2]
  at::Tensor templateAltTorsionAnglesSinCos;
  at::Tensor templateTorsionAnglesMask; // [T, R, 7]

  // The truth, for training; positions in angstrom.
  at::Tensor atom14GtPositions;    // [R, 14, 3]
  at::Tensor atom14AltGtPositions; // with the names of symmetric atoms swapped
  at::Tensor atom14GtExists;       // [R, 14], was resolved
  at::Tensor atom14AltGtExists;
  at::Tensor atom14AtomIsAmbiguous; // [R, 14]
  at::Tensor rigidgroupsGtFrames;   // [R, 8, 4, 4]
  at::Tensor rigidgroupsAltGtFrames;
  at::Tensor rigidgroupsGtExists;    // [R, 8]
  at::Tensor torsionAnglesSinCos;    // [R, 7, 2]: omega, phi, psi, chi 1 to 4
  at::Tensor altTorsionAnglesSinCos; // turned by pi where that is the same
  at::Tensor torsionAnglesMask;      // [R, 7]
  at::Tensor pseudoBeta;             // [R, 3]
  at::Tensor pseudoBetaMask;         // [R]
  at::Tensor allAtomPositions;       // [R, 37, 3]
  at::Tensor allAtomMask;            // [R, 37]
  at::Tensor bertMask;               // [S, R], 1: was hidden
  at::Tensor trueMsa;                // [S, R] int64
  at::Tensor resolution;             // [], angstrom
  at::Tensor useClampedFape;         // [], 1: distances of the backbone are clamped

  // Masks that are 1 everywhere, as settle() has found: the model computes as if there were none.
  bool isSeqFull = false, isMsaFull = false, isExtraMsaFull = false;

  /// Drops templates if all are masked, and notes which masks are full. It reads the tensors, so it
  /// is for the host, before to().
  void settle();

  bool hasTemplates() const { return templateMask.defined(); }

  /// each(name, tensor) for every member, in the order above.
  template <typename Each> void each(Each each) { visit(*this, each); }
  template <typename Each> void each(Each each) const { visit(*this, each); }

  /// On a device; floating-point members in `dtype`.
  Inputs to(at::Device device, at::ScalarType dtype) const;
  /// Copies another's tensors, of the same sizes, into those that are here.
  void copyFrom(const Inputs& other);
  /// Throws Error(input), with the numbers, if a tensor that the model reads is missing or does not
  /// fit the others. Nothing is read from the device.
  void check() const;
  /// The same for what the losses read.
  void checkTruth() const;

 private:
  template <typename Self, typename Each> static void visit(Self& self, Each& each);
};

template <typename Self, typename Each> void Inputs::visit(Self& self, Each& each) {
  each("aatype", self.aatype);
  each("residue_index", self.residueIndex);
  each("seq_mask", self.seqMask);
  each("target_feat", self.targetFeat);
  each("msa_feat", self.msaFeat);
  each("msa_mask", self.msaMask);
  each("extra_msa_feat", self.extraMsaFeat);
  each("extra_msa_mask", self.extraMsaMask);
  each("template_mask", self.templateMask);
  each("template_aatype", self.templateAatype);
  each("template_pseudo_beta", self.templatePseudoBeta);
  each("template_pseudo_beta_mask", self.templatePseudoBetaMask);
  each("template_all_atom_positions", self.templateAllAtomPositions);
  each("template_all_atom_mask", self.templateAllAtomMask);
  each("template_torsion_angles_sin_cos", self.templateTorsionAnglesSinCos);
  each("template_alt_torsion_angles_sin_cos", self.templateAltTorsionAnglesSinCos);
  each("template_torsion_angles_mask", self.templateTorsionAnglesMask);
  each("atom14_gt_positions", self.atom14GtPositions);
  each("atom14_alt_gt_positions", self.atom14AltGtPositions);
  each("atom14_gt_exists", self.atom14GtExists);
  each("atom14_alt_gt_exists", self.atom14AltGtExists);
  each("atom14_atom_is_ambiguous", self.atom14AtomIsAmbiguous);
  each("rigidgroups_gt_frames", self.rigidgroupsGtFrames);
  each("rigidgroups_alt_gt_frames", self.rigidgroupsAltGtFrames);
  each("rigidgroups_gt_exists", self.rigidgroupsGtExists);
  each("torsion_angles_sin_cos", self.torsionAnglesSinCos);
  each("alt_torsion_angles_sin_cos", self.altTorsionAnglesSinCos);
  each("torsion_angles_mask", self.torsionAnglesMask);
  each("pseudo_beta", self.pseudoBeta);
  each("pseudo_beta_mask", self.pseudoBetaMask);
  each("all_atom_positions", self.allAtomPositions);
  each("all_atom_mask", self.allAtomMask);
  each("bert_mask", self.bertMask);
  each("true_msa", self.trueMsa);
  each("resolution", self.resolution);
  each("use_clamped_fape", self.useClampedFape);
}

} // namespace kiln::alphafold
