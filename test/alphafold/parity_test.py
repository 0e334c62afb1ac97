"""Each module of models/alphafold, forward and backward in fp64, against reference.py and
reference_structure.py; names of parameters against those of the published model."""

import pathlib
import unittest

import torch

import reference
import reference_structure as structure
import shapes
from parity import CHEMISTRY, CONFIG, E, R, S, T, Parity, angles, draw, mask, rotations

PARAMETERS = pathlib.Path(__file__).resolve().parent / "parameters.txt"
PUBLISHED = CONFIG | {
    "msa": 256, "pair": 128, "single": 384, "extra_msa": 64, "template_pair": 64,
    "evoformer_blocks": 48, "extra_blocks": 4, "msa_heads": 8, "msa_head": 32, "extra_head": 8,
    "pair_heads": 4, "pair_head": 32, "template_heads": 4, "template_head": 16, "outer_product": 32,
    "triangle": 128, "template_triangle": 64, "transition": 4, "template_transition": 2,
    "relative_positions": 32, "point_heads": 12, "point_head": 16, "query_points": 4,
    "value_points": 8, "resnet": 128, "distogram_bins": 64, "lddt_bins": 50, "lddt_hidden": 128}


def features(templates=T):
    found = {"aatype": torch.tensor([7, 1, 18, 20, 4, 14]), "target_feat": draw(R, 22),
             "residue_index": torch.tensor([0, 1, 2, 5, 6, 13]), "msa_feat": draw(S, R, 49),
             "seq_mask": torch.tensor([1.0, 1, 1, 1, 1, 0]).double(), "msa_mask": mask(S, R),
             "extra_msa_feat": draw(E, R, 25), "extra_msa_mask": mask(E, R)}
    if templates:
        found |= {"template_mask": torch.tensor([1.0, 0, 1]).double(),
                  "template_aatype": torch.randint(0, 22, (T, R)),
                  "template_pseudo_beta": 6 * draw(T, R, 3),
                  "template_pseudo_beta_mask": mask(T, R),
                  "template_all_atom_positions": 6 * draw(T, R, 37, 3),
                  "template_all_atom_mask": mask(T, R, 37),
                  "template_torsion_angles_sin_cos": angles(T, R, 7),
                  "template_alt_torsion_angles_sin_cos": angles(T, R, 7),
                  "template_torsion_angles_mask": mask(T, R, 7)}
    return found


class Names(unittest.TestCase):
    def test_those_of_the_published_model(self):
        lines = [line.split() for line in PARAMETERS.read_text().splitlines()]
        published = {name: tuple(map(int, shape.split("x"))) for name, shape in lines}
        ours = shapes.alphafold(PUBLISHED)
        for name in [name for name in ours if name.startswith("aux_heads.tm.")]:
            del ours[name]  # only some published models have this head
        self.assertEqual(ours, published)


class Modules(Parity):
    def test_rigid(self):
        def expected(p, c, x):
            made = [structure.from_three_points(x["a"][i], x["b"][i], x["c"][i]) for i in range(R)]
            pairs = [structure.compose(one, structure.update_frame(u))
                     for one, u in zip(made, x["update"])]
            r, t = (torch.stack(part) for part in zip(*pairs))
            inverse = torch.einsum("iba,ib->ia", r, x["points"] - t)
            last = torch.tensor([0.0, 0, 0, 1]).double().expand(R, 1, 4)
            return {"rotation": r, "translation": t, "inverse": inverse,
                    "applied": torch.einsum("iab,ib->ia", r, x["points"]) + t,
                    "matrix": torch.cat([torch.cat([r, t[..., None]], -1), last], 1)}
        inputs = {name: draw(R, 3) for name in ("a", "b", "c", "points")} | {"update": draw(R, 6)}
        self.check("rigid", {}, inputs, expected)

    def test_input_embedder(self):
        def expected(p, c, x):
            m, z = reference.input_embedder(p, c, x)
            return {"m": m, "z": z}
        inputs = {n: x for n, x in features().items()
                  if n in ("target_feat", "msa_feat", "residue_index")}
        self.check("input_embedder", shapes.input_embedder(CONFIG), inputs, expected)

    def test_recycling_embedder(self):
        def expected(p, c, x):
            m, z = reference.recycling_embedder(p, c, x["m"], x["z"], x["before_m"],
                                                x["before_z"], x["positions"].detach())
            return {"m": m, "z": z}
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]),
                  "before_m": draw(R, c["msa"]), "before_z": draw(R, R, c["pair"]),
                  "positions": 8 * draw(R, 3)}
        self.check("recycling_embedder", shapes.recycling_embedder(c), inputs, expected)

    def template_features(self, vectors):
        def expected(p, c, x):
            return {"pair": reference.template_pair_features(x, 1, c),
                    "angle": reference.template_angle_features(x, c)}
        inputs = features()
        self.check("template_features", {}, inputs, expected, given=inputs,
                   config={"template_unit_vectors": vectors})

    def test_template_features(self):
        self.template_features(False)

    def test_template_features_with_directions(self):
        self.template_features(True)

    def test_template_embedder(self):
        def expected(p, c, x):
            m, z = reference.template_embedder(p, c, x, x["z"], x["pair_mask"])
            return {"m": m, "z": z}
        given = features()
        inputs = given | {"z": draw(R, R, CONFIG["pair"]), "pair_mask": mask(R, R)}
        self.check("template_embedder", shapes.template_embedder(CONFIG), inputs, expected,
                   given=[*given, "pair_mask"])

    def masked(self, module, shapes, x, there, function=None):
        function = function or getattr(reference, module)
        self.check(module, shapes, {"x": x, "mask": there},
                   lambda p, c, i: {"y": function(p, c, i["x"], i["mask"])}, given=["mask"])

    def test_template_pair_stack(self):
        self.masked("template_pair_stack", shapes.template_pair_stack(CONFIG),
                    draw(R, R, CONFIG["template_pair"]), mask(R, R))

    def test_template_pointwise(self):
        c = CONFIG
        inputs = {"t": draw(R, R, T, c["template_pair"]), "z": draw(R, R, c["pair"]),
                  "mask": torch.tensor([1.0, 0, 1]).double()}
        self.check("template_pointwise", shapes.template_pointwise(c), inputs,
                   lambda p, c, x: {
                       "y": reference.template_pointwise(p, c, x["t"], x["z"], x["mask"])},
                   given=["mask"])

    def test_msa_row(self):
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]), "mask": mask(S, R)}
        self.check("msa_row", shapes.msa_row(c, c["msa"], c["msa_head"]), inputs,
                   lambda p, c, x: {"y": reference.msa_row(p, c, x["m"], x["z"], x["mask"])},
                   given=["mask"])

    def test_msa_column(self):
        self.masked("msa_column", shapes.msa_column(CONFIG), draw(S, R, CONFIG["msa"]), mask(S, R))

    def test_msa_global_column(self):
        self.masked("msa_global_column", shapes.msa_global_column(CONFIG),
                    draw(E, R, CONFIG["extra_msa"]), mask(E, R))

    def test_transition(self):
        self.check("transition", shapes.transition(CONFIG["msa"], CONFIG["transition"]),
                   {"x": draw(S, R, CONFIG["msa"])},
                   lambda p, c, x: {"y": reference.transition(p, c, x["x"])})

    def test_outer_product_mean(self):
        self.masked("outer_product_mean", shapes.outer_product_mean(CONFIG, CONFIG["msa"]),
                    draw(S, R, CONFIG["msa"]), mask(S, R))

    def test_triangles(self):
        c = CONFIG
        kinds = {"multiplication": shapes.triangle_multiplication(c["pair"], c["triangle"]),
                 "attention": shapes.triangle_attention(c["pair"], c["pair_heads"],
                                                        c["pair_head"])}
        for name, kind in (("outgoing", "multiplication"), ("incoming", "multiplication"),
                           ("starting", "attention"), ("ending", "attention")):
            with self.subTest(name):
                self.masked(f"triangle_{name}", kinds[kind], draw(R, R, c["pair"]), mask(R, R))

    def stack_inputs(self, rows, channels):
        return {"m": draw(rows, R, channels), "z": draw(R, R, CONFIG["pair"]),
                "msa_mask": mask(rows, R), "pair_mask": mask(R, R)}

    def test_extra_msa_stack(self):
        self.check("extra_msa_stack", shapes.extra_msa_stack(CONFIG),
                   self.stack_inputs(E, CONFIG["extra_msa"]),
                   lambda p, c, x: {"z": reference.extra_msa_stack(p, c, **x)},
                   given=["msa_mask", "pair_mask"])

    def test_evoformer(self):
        self.check("evoformer", shapes.evoformer(CONFIG), self.stack_inputs(S, CONFIG["msa"]),
                   lambda p, c, x: dict(zip("mzs", reference.evoformer(p, c, **x))),
                   given=["msa_mask", "pair_mask"])

    def test_invariant_point_attention(self):
        def expected(p, c, x):
            frames = x["rotation"], x["translation"]
            return {"y": structure.ipa(p, c, x["s"], x["z"], frames, x["mask"])}
        inputs = {"s": draw(R, CONFIG["single"]), "z": draw(R, R, CONFIG["pair"]),
                  "rotation": rotations(R), "translation": draw(R, 3), "mask": mask(R)}
        self.check("ipa", shapes.ipa(CONFIG), inputs, expected, given=["mask"])

    def test_all_atom(self):
        """Of every amino acid, and of an unknown one."""
        def expected(p, c, x):
            frames = x["rotation"], x["translation"]
            r, t, positions = structure.all_atom(CHEMISTRY, frames, x["angles"], x["aatype"])
            return {"rotation": r, "translation": t, "positions": positions,
                    "beta": structure.pseudo_beta(positions, x["aatype"])}
        inputs = {"rotation": rotations(21), "translation": draw(21, 3), "angles": angles(21, 7),
                  "aatype": torch.arange(21)}
        self.check("all_atom", {}, inputs, expected)

    def test_structure_module(self):
        def expected(p, c, x):
            return structure.structure_module(p, c, CHEMISTRY, x["s"], x["z"], x["aatype"],
                                              x["mask"])
        inputs = {"s": draw(R, CONFIG["single"]), "z": draw(R, R, CONFIG["pair"]),
                  "aatype": features()["aatype"], "mask": mask(R)}
        self.check("structure_module", shapes.structure_module(CONFIG), inputs, expected,
                   given=["mask"])

    def test_heads(self):
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]),
                  "s": draw(R, c["single"]), "structure": draw(R, c["single"])}
        self.check("heads", shapes.heads(c), inputs, lambda p, c, x: reference.heads(p, c, **x))

    def whole(self, templates):
        """Where all keys of a row are masked, logits are rounded as numbers of 1e9 are."""
        def expected(p, c, x):
            passes = [{n[2:]: t for n, t in x.items() if n.startswith(f"{i}.")} for i in (0, 1)]
            return reference.alphafold(p, c, CHEMISTRY, passes)
        inputs = {f"{i}.{n}": x for i in (0, 1) for n, x in features(templates).items()}
        self.check("alphafold", shapes.alphafold(CONFIG), inputs, expected, given=inputs,
                   tolerance=2e-6)

    def test_alphafold_with_templates(self):
        self.whole(T)

    def test_alphafold_without_templates(self):
        self.whole(0)


if __name__ == "__main__":
    unittest.main()
