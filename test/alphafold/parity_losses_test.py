"""Each loss and metric of models/alphafold, and its gradient, in fp64, against
reference_losses.py."""

import unittest

import torch

import reference_losses
import reference_structure as structure
from parity import CHEMISTRY, CONFIG, S, Parity, angles, draw, mask, rotations


def near(frames, scale):
    """Frames a little turned and shifted."""
    turns = [structure.update_frame(u) for u in 0.2 * draw(len(frames[0]), 6)]
    r, t = (torch.stack(part) for part in zip(*turns))
    return structure.compose(frames, (r, scale * t))


class Losses(Parity):
    # symmetric atoms, a gap, a proline behind a bond, two cysteines, a glycine.
    KINDS = torch.tensor([3, 4, 14, 6, 7, 13, 4, 18])

    def protein(self):
        """Truth, and what was predicted near to it."""
        kinds, count = self.KINDS, len(self.KINDS)
        there = torch.ones(count, dtype=torch.float64)
        there[-2] = 0
        backbone = rotations(count), torch.cumsum(2 * draw(count, 3), 0)
        torsions = angles(count, 7)
        turned = torsions.clone()
        for i, kind in enumerate(kinds.tolist()):  # by half a turn, where that is the same
            chis = CHEMISTRY.tables["chi_pi_periodic"][kind]
            turned[i, 3:] *= 1 - 2 * torch.tensor(chis).double()[:, None]
        r, t, x = structure.all_atom(CHEMISTRY, backbone, torsions, kinds)
        other_r, other_t, _ = structure.all_atom(CHEMISTRY, backbone, turned, kinds)
        exists = torch.stack([torch.tensor([float(bool(n)) for n in CHEMISTRY.atoms14(kind)])
                              for kind in kinds.tolist()]).double() * there[:, None]
        exists *= (torch.rand(count, 14) < 0.9).double()
        chis = torch.tensor([CHEMISTRY.tables["chi_angles_mask"][kind] for kind in kinds.tolist()])
        chis = chis.double() * there[:, None]

        def matrices(r, t):
            last = torch.tensor([0.0, 0, 0, 1]).double().expand(count, 8, 1, 4)
            return torch.cat([torch.cat([r, t[..., None]], -1), last], -2)

        ambiguous, order = torch.zeros(count, 14).double(), torch.arange(14).repeat(count, 1)
        for i, kind in enumerate(kinds.tolist()):
            names = CHEMISTRY.atoms14(kind)
            for a, b in CHEMISTRY.tables["residue_atom_renaming_swaps"].get(
                    CHEMISTRY.name(kind), {}).items():
                a, b = names.index(a), names.index(b)
                order[i, a], order[i, b] = b, a
                ambiguous[i, a] = ambiguous[i, b] = 1
        rows = torch.arange(count)[:, None]
        truth = {
            "aatype": kinds, "residue_index": torch.tensor([0, 1, 2, 3, 6, 7, 8, 9]),
            "seq_mask": there, "atom14_gt_positions": x, "atom14_alt_gt_positions": x[rows, order],
            "atom14_gt_exists": exists, "atom14_alt_gt_exists": exists[rows, order],
            "atom14_atom_is_ambiguous": ambiguous, "rigidgroups_gt_frames": matrices(r, t),
            "rigidgroups_alt_gt_frames": matrices(other_r, other_t),
            "rigidgroups_gt_exists": torch.cat([there[:, None].expand(count, 4), chis], 1),
            "torsion_angles_sin_cos": torsions, "alt_torsion_angles_sin_cos": turned,
            "torsion_angles_mask": torch.cat([there[:, None].expand(count, 3), chis], 1),
            "pseudo_beta": structure.pseudo_beta(x, kinds), "pseudo_beta_mask": mask(count),
            "all_atom_positions": 5 * draw(count, 37, 3), "all_atom_mask": mask(count, 37),
            "bert_mask": mask(S, count), "true_msa": torch.randint(0, 23, (S, count)),
            "resolution": torch.tensor(2.5).double(),
            "use_clamped_fape": torch.tensor(0.7, dtype=torch.float64)}
        truth["all_atom_positions"][:, 1] = x[:, 1]
        layers = [near(backbone, 4), near(backbone, 1)]
        raw = 2 * torch.stack([torsions, turned]) + 0.5 * draw(2, count, 7, 2)
        found = {"backbone_rotation": torch.stack([r for r, _ in layers]),
                 "backbone_translation": torch.stack([t for _, t in layers]),
                 "raw_angles": raw, "angles": raw / torch.linalg.norm(raw, dim=-1, keepdim=True)}
        r, t, x = structure.all_atom(CHEMISTRY, layers[-1], found["angles"][-1], kinds)
        return truth, found | {"group_rotation": r, "group_translation": t, "positions": x}

    def logits(self):
        c, count = CONFIG, len(self.KINDS)
        return {"lddt": draw(count, c["lddt_bins"]), "resolved": draw(count, 37),
                "distogram": draw(count, count, c["distogram_bins"]),
                "masked_msa": draw(S, count, c["msa_classes"]),
                "aligned_error": draw(count, count, c["aligned_error_bins"])}

    def test_fape(self):
        inputs = {"rotation": rotations(5), "translation": 6 * draw(5, 3), "points": 9 * draw(7, 3),
                  "true_rotation": rotations(5), "true_translation": 6 * draw(5, 3),
                  "true_points": 9 * draw(7, 3), "frame_mask": mask(5), "point_mask": mask(7)}
        for clamped in (0.0, 0.25, 1.0):
            with self.subTest(clamped=clamped):
                self.check("fape", {}, inputs | {"clamped": torch.tensor(clamped).double()},
                           lambda p, c, x: {"y": reference_losses.fape(
                               (x["rotation"], x["translation"]), x["points"],
                               (x["true_rotation"], x["true_translation"]), x["true_points"],
                               x["frame_mask"], x["point_mask"], x["clamped"])},
                           given=["frame_mask", "point_mask", "clamped"])

    def test_structure_losses(self):
        truth, found = self.protein()

        def expected(p, c, x):
            results = reference_losses.structure_losses(x, truth)
            self.assertIn(1, results["swapped"].tolist())
            self.assertIn(0, results["swapped"].tolist())
            return results
        self.check("structure_losses", {}, found | truth, expected, given=truth)

    def test_bounds_within_residues(self):
        def expected(p, c, x):
            pairs = [reference_losses.bounds(CHEMISTRY, kind) for kind in range(21)]
            return {"lowest": torch.stack([low for low, _ in pairs]),
                    "highest": torch.stack([high for _, high in pairs])}
        self.check("bounds", {}, {"like": draw(1)}, expected, given=["like"])

    def test_violations(self):
        """All of one protein; in another, whose chain is closed up, few."""
        truth, found = self.protein()
        for spread in (0.0, 0.5):
            x = truth["atom14_gt_positions"] + spread * draw(*truth["atom14_gt_positions"].shape)
            self.check("violations", {}, truth | {"positions": 0.6 * x},
                       lambda p, c, x: reference_losses.violations(CHEMISTRY, x["positions"],
                                                                   truth),
                       given=truth)

    def test_head_losses(self):
        truth, found = self.protein()
        heads = self.logits()
        for resolution in (2.5, 3.5, 0.0):
            with self.subTest(resolution=resolution):
                truth["resolution"] = torch.tensor(resolution).double()
                self.check("head_losses", {}, truth | found | heads,
                           lambda p, c, x: reference_losses.head_losses(CHEMISTRY, x, found, truth),
                           given=[*truth, *found])

    def test_total(self):
        truth, found = self.protein()
        heads = self.logits()

        def expected(p, c, x):
            return {name: reference_losses.total(CHEMISTRY, x, x, truth, name == "finetune")
                    for name in ("initial", "finetune")}
        self.check("losses", {}, truth | found | heads, expected, given=truth)

    def test_metrics(self):
        truth = torch.cumsum(2 * draw(12, 3), 0)
        inputs = {"truth": truth, "mask": mask(12),
                  "positions": (truth + 1.5 * draw(12, 3)) @ rotations(1)[0] + 7}
        self.check("metrics", {}, inputs,
                   lambda p, c, x: reference_losses.metrics(x["positions"], x["truth"], x["mask"]),
                   given=inputs)


if __name__ == "__main__":
    unittest.main()
