"""Each module of models/alphafold, forward and backward in fp64, against reference.py and
reference_losses.py. alphafold_parity runs the C++ side; the two meet by files."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch

import reference
import reference_losses
import tensor_file

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parent.parent / "models" / "alphafold" / "model" / "chemistry.json"
PARAMETERS = HERE / "parameters.txt"
CHEMISTRY = reference.Chemistry(json.loads(TABLES.read_text()))

# Channels that are all different, so that none is taken for another.
CONFIG = {
    "target_features": 22, "msa_features": 49, "extra_features": 25, "amino_acids": 22,
    "msa": 10, "pair": 9, "single": 11, "extra_msa": 7, "template_pair": 8,
    "evoformer_blocks": 2, "extra_blocks": 2, "template_blocks": 2, "structure_layers": 3,
    "msa_heads": 3, "msa_head": 4, "extra_head": 2, "pair_heads": 2, "pair_head": 5,
    "template_heads": 3, "template_head": 2, "outer_product": 3, "triangle": 6,
    "template_triangle": 5, "transition": 2, "template_transition": 3, "relative_positions": 2,
    "recycling_bins": 15, "template_bins": 39, "point_heads": 3, "point_head": 4,
    "query_points": 2, "value_points": 3, "resnet": 6, "resnet_blocks": 2, "distogram_bins": 13,
    "msa_classes": 23, "lddt_bins": 17, "lddt_hidden": 5, "aligned_error_bins": 7,
    "aligned_error": True, "template_unit_vectors": False}

# The channels of the published model by their sizes in parameters.txt cannot be told apart, so
# shapes come from the names: (out, in) of every linear map, or the width of a norm.
R, S, E, T = 6, 4, 5, 3


def draw(*sizes):
    return torch.randn(sizes, dtype=torch.float64)


def mask(*sizes):
    """About three of four are there; the first always."""
    found = (torch.rand(*sizes, dtype=torch.float64) < 0.75).double()
    found[0] = 1
    return found


def linear(name, out, size, bias=True):
    shapes = {name + ".weight": (out, size)}
    return shapes | {name + ".bias": (out,)} if bias else shapes


def norm(name, width):
    return {name + ".weight": (width,), name + ".bias": (width,)}


def within(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def attention(c_q, c_kv, heads, head, out, gated=True):
    wide = heads * head
    shapes = linear("linear_q", wide, c_q, False) | linear("linear_k", wide, c_kv, False)
    shapes |= linear("linear_v", wide, c_kv, False) | linear("linear_o", out, wide)
    return shapes | linear("linear_g", wide, c_q) if gated else shapes


def msa_row(c, channels, head):
    return (norm("layer_norm_m", channels) | norm("layer_norm_z", c["pair"])
            | linear("linear_z", c["msa_heads"], c["pair"], False)
            | within("mha", attention(channels, channels, c["msa_heads"], head, channels)))


def msa_column(c):
    return within("_msa_att", norm("layer_norm_m", c["msa"]) | within(
        "mha", attention(c["msa"], c["msa"], c["msa_heads"], c["msa_head"], c["msa"])))


def msa_global_column(c):
    channels, head = c["extra_msa"], c["extra_head"]
    wide = c["msa_heads"] * head
    return norm("layer_norm_m", channels) | within("global_attention", (
        linear("linear_q", wide, channels, False) | linear("linear_k", head, channels, False)
        | linear("linear_v", head, channels, False) | linear("linear_g", wide, channels)
        | linear("linear_o", channels, wide)))


def transition(channels, factor):
    return (norm("layer_norm", channels) | linear("linear_1", factor * channels, channels)
            | linear("linear_2", channels, factor * channels))


def outer_product_mean(c, channels):
    hidden = c["outer_product"]
    return (norm("layer_norm", channels) | linear("linear_1", hidden, channels)
            | linear("linear_2", hidden, channels) | linear("linear_out", c["pair"], hidden ** 2))


def triangle_multiplication(pair, hidden):
    shapes = linear("linear_g", pair, pair) | linear("linear_z", pair, hidden)
    shapes |= norm("layer_norm_in", pair) | norm("layer_norm_out", hidden)
    for name in ("linear_a_p", "linear_a_g", "linear_b_p", "linear_b_g"):
        shapes |= linear(name, hidden, pair)
    return shapes


def triangle_attention(pair, heads, head):
    return (norm("layer_norm", pair) | linear("linear", heads, pair, False)
            | within("mha", attention(pair, pair, heads, head, pair)))


def pair_stack(c):
    product = triangle_multiplication(c["pair"], c["triangle"])
    attend = triangle_attention(c["pair"], c["pair_heads"], c["pair_head"])
    return (within("tri_mul_out", product) | within("tri_mul_in", product)
            | within("tri_att_start", attend) | within("tri_att_end", attend)
            | within("pair_transition", transition(c["pair"], c["transition"])))


def block(c, channels, head, column):
    return (within("msa_att_row", msa_row(c, channels, head))
            | within("msa_transition", transition(channels, c["transition"]))
            | within("outer_product_mean", outer_product_mean(c, channels))
            | within("pair_stack", pair_stack(c)) | within("msa_att_col", column))


def repeated(count, shapes):
    return {k: v for i in range(count) for k, v in within(f"blocks.{i}", shapes).items()}


def evoformer(c):
    shapes = repeated(c["evoformer_blocks"], block(c, c["msa"], c["msa_head"], msa_column(c)))
    return shapes | linear("linear", c["single"], c["msa"])


def extra_msa_stack(c):
    return repeated(c["extra_blocks"],
                    block(c, c["extra_msa"], c["extra_head"], msa_global_column(c)))


def template_pair_stack(c):
    pair = c["template_pair"]
    product = triangle_multiplication(pair, c["template_triangle"])
    attend = triangle_attention(pair, c["template_heads"], c["template_head"])
    one = (within("tri_att_start", attend) | within("tri_att_end", attend)
           | within("tri_mul_out", product) | within("tri_mul_in", product)
           | within("pair_transition", transition(pair, c["template_transition"])))
    return repeated(c["template_blocks"], one) | norm("layer_norm", pair)


def template_pointwise(c):
    return within("mha", attention(c["pair"], c["template_pair"], c["template_heads"],
                                   c["template_head"], c["pair"], gated=False))


def template_embedder(c):
    return (within("template_single_embedder",
                   linear("linear_1", c["msa"], 57) | linear("linear_2", c["msa"], c["msa"]))
            | within("template_pair_embedder", linear("linear", c["template_pair"], 88))
            | within("template_pair_stack", template_pair_stack(c))
            | within("template_pointwise_att", template_pointwise(c)))


def input_embedder(c):
    return (linear("linear_tf_z_i", c["pair"], 22) | linear("linear_tf_z_j", c["pair"], 22)
            | linear("linear_tf_m", c["msa"], 22) | linear("linear_msa_m", c["msa"], 49)
            | linear("linear_relpos", c["pair"], 2 * c["relative_positions"] + 1))


def recycling_embedder(c):
    return (linear("linear", c["pair"], c["recycling_bins"]) | norm("layer_norm_m", c["msa"])
            | norm("layer_norm_z", c["pair"]))


def ipa(c):
    heads, head, single = c["point_heads"], c["point_head"], c["single"]
    n_q, n_v = c["query_points"], c["value_points"]
    return ({"head_weights": (heads,)} | linear("linear_q", heads * head, single)
            | linear("linear_q_points.linear", heads * n_q * 3, single)
            | linear("linear_kv", 2 * heads * head, single)
            | linear("linear_kv_points.linear", heads * (n_q + n_v) * 3, single)
            | linear("linear_b", heads, c["pair"])
            | linear("linear_out", single, heads * (head + 4 * n_v + c["pair"])))


def structure_module(c):
    single, hidden = c["single"], c["resnet"]
    shapes = norm("layer_norm_s", single) | norm("layer_norm_z", c["pair"])
    shapes |= linear("linear_in", single, single) | within("ipa", ipa(c))
    shapes |= norm("layer_norm_ipa", single) | norm("transition.layer_norm", single)
    for i in (1, 2, 3):
        shapes |= linear(f"transition.layers.0.linear_{i}", single, single)
    shapes |= linear("bb_update.linear", 6, single)
    shapes |= linear("angle_resnet.linear_in", hidden, single)
    shapes |= linear("angle_resnet.linear_initial", hidden, single)
    for i in range(c["resnet_blocks"]):
        for j in (1, 2):
            shapes |= linear(f"angle_resnet.layers.{i}.linear_{j}", hidden, hidden)
    return shapes | linear("angle_resnet.linear_out", 14, hidden)


def heads(c):
    single, hidden = c["single"], c["lddt_hidden"]
    return (norm("plddt.layer_norm", single) | linear("plddt.linear_1", hidden, single)
            | linear("plddt.linear_2", hidden, hidden)
            | linear("plddt.linear_3", c["lddt_bins"], hidden)
            | linear("distogram.linear", c["distogram_bins"], c["pair"])
            | linear("masked_msa.linear", c["msa_classes"], c["msa"])
            | linear("experimentally_resolved.linear", 37, single)
            | linear("tm.linear", c["aligned_error_bins"], c["pair"]))


def alphafold(c):
    return (within("input_embedder", input_embedder(c))
            | within("recycling_embedder", recycling_embedder(c))
            | within("template_embedder", template_embedder(c))
            | within("extra_msa_embedder", linear("linear", c["extra_msa"], 25))
            | within("extra_msa_stack", extra_msa_stack(c)) | within("evoformer", evoformer(c))
            | within("structure_module", structure_module(c)) | within("aux_heads", heads(c)))


def angles(*sizes):
    turned = torch.rand(*sizes, dtype=torch.float64) * 6.2832
    return torch.stack([torch.sin(turned), torch.cos(turned)], -1)


def rotations(count):
    return torch.stack([reference.update_frame(u)[0] for u in draw(count, 6)])


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


class Parity(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(sum(map(ord, self.id())))

    def check(self, module, shapes, inputs, expected, given=(), config=(),
              tolerance=1e-8):
        """`expected(p, c, x)` makes results by name from parameters, config and inputs. `given` are
        inputs that get no gradients. The tolerance is of fp64, whose sums have another order."""
        c = CONFIG | dict(config)
        p = {name: 0.4 * draw(*shape) for name, shape in shapes.items()}
        for name in p:
            if name.endswith("norm.weight") or "layer_norm" in name and name.endswith("weight"):
                p[name] += 1
        p = {name: tensor.requires_grad_() for name, tensor in p.items()}
        given = {name for name, x in inputs.items() if name in given or not x.is_floating_point()}
        leaves = {name: x if name in given else x.clone().requires_grad_()
                  for name, x in inputs.items()}
        results = expected(p, c, leaves)
        cotangents = {name: draw(*x.shape) for name, x in results.items() if x.requires_grad}
        wanted = {f"gradient.parameter.{name}": x for name, x in p.items()}
        wanted |= {f"gradient.input.{name}": x for name, x in leaves.items() if x.requires_grad}
        gradients = {}
        if cotangents:
            gradients = dict(zip(wanted, torch.autograd.grad(
                [results[name] for name in cotangents], list(wanted.values()),
                list(cotangents.values()), allow_unused=True)))
        found = self.run_module(module, c, {f"parameter.{n}": x for n, x in p.items()}
                                | {f"{'given' if n in given else 'input'}.{n}": x
                                   for n, x in inputs.items()}
                                | {f"cotangent.{n}": x for n, x in cotangents.items()})
        wanted = {f"output.{n}": x for n, x in results.items()}
        wanted |= {n: x for n, x in gradients.items() if x is not None}
        for name, expect in wanted.items():
            self.assertIn(name, found)
            self.close(name, found[name], expect.detach(), tolerance)
        for name in found:
            if name.startswith("gradient.") and name not in wanted:
                self.assertEqual(float(found[name].abs().max()), 0, name)

    def run_module(self, module, config, tensors):
        with tempfile.TemporaryDirectory() as folder:
            given, made = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
            tensor_file.write(given, tensors, {"module": module, "config": json.dumps(config)})
            done = subprocess.run([os.environ["ALPHAFOLD_PARITY"], given, made],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return tensor_file.read(made)

    def close(self, name, found, expect, tolerance):
        self.assertEqual(found.shape, expect.shape, name)
        if found.numel() == 0:
            return
        self.assertTrue(torch.isfinite(found).all(), name)
        scale = max(1, float(expect.abs().max()))
        self.assertLess(float((found - expect).abs().max()), tolerance * scale, name)


class Modules(Parity):
    def test_rigid(self):
        def expected(p, c, x):
            pairs = [reference.compose(reference.from_three_points(x["a"][i], x["b"][i], x["c"][i]),
                                       reference.update_frame(x["update"][i])) for i in range(R)]
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
        self.check("input_embedder", input_embedder(CONFIG), inputs, expected)

    def test_recycling_embedder(self):
        def expected(p, c, x):
            m, z = reference.recycling_embedder(p, c, x["m"], x["z"], x["before_m"],
                                                x["before_z"], x["positions"].detach())
            return {"m": m, "z": z}
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]),
                  "before_m": draw(R, c["msa"]), "before_z": draw(R, R, c["pair"]),
                  "positions": 8 * draw(R, 3)}
        self.check("recycling_embedder", recycling_embedder(c), inputs, expected)

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
        self.check("template_embedder", template_embedder(CONFIG), inputs, expected,
                   given=[*given, "pair_mask"])

    def masked(self, module, shapes, x, there, function=None):
        function = function or getattr(reference, module)
        self.check(module, shapes, {"x": x, "mask": there},
                   lambda p, c, i: {"y": function(p, c, i["x"], i["mask"])}, given=["mask"])

    def test_template_pair_stack(self):
        self.masked("template_pair_stack", template_pair_stack(CONFIG),
                    draw(R, R, CONFIG["template_pair"]), mask(R, R))

    def test_template_pointwise(self):
        c = CONFIG
        inputs = {"t": draw(R, R, T, c["template_pair"]), "z": draw(R, R, c["pair"]),
                  "mask": torch.tensor([1.0, 0, 1]).double()}
        self.check("template_pointwise", template_pointwise(c), inputs,
                   lambda p, c, x: {"y": reference.template_pointwise(p, c, x["t"], x["z"], x["mask"])},
                   given=["mask"])

    def test_msa_row(self):
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]), "mask": mask(S, R)}
        self.check("msa_row", msa_row(c, c["msa"], c["msa_head"]), inputs,
                   lambda p, c, x: {"y": reference.msa_row(p, c, x["m"], x["z"], x["mask"])},
                   given=["mask"])

    def test_msa_column(self):
        self.masked("msa_column", msa_column(CONFIG), draw(S, R, CONFIG["msa"]), mask(S, R))

    def test_msa_global_column(self):
        self.masked("msa_global_column", msa_global_column(CONFIG),
                    draw(E, R, CONFIG["extra_msa"]), mask(E, R))

    def test_transition(self):
        self.check("transition", transition(CONFIG["msa"], CONFIG["transition"]),
                   {"x": draw(S, R, CONFIG["msa"])},
                   lambda p, c, x: {"y": reference.transition(p, c, x["x"])})

    def test_outer_product_mean(self):
        self.masked("outer_product_mean", outer_product_mean(CONFIG, CONFIG["msa"]),
                    draw(S, R, CONFIG["msa"]), mask(S, R))

    def test_triangles(self):
        c = CONFIG
        shapes = {"multiplication": triangle_multiplication(c["pair"], c["triangle"]),
                  "attention": triangle_attention(c["pair"], c["pair_heads"], c["pair_head"])}
        for name, kind in (("outgoing", "multiplication"), ("incoming", "multiplication"),
                           ("starting", "attention"), ("ending", "attention")):
            with self.subTest(name):
                self.masked(f"triangle_{name}", shapes[kind], draw(R, R, c["pair"]), mask(R, R))

    def stack_inputs(self, rows, channels):
        return {"m": draw(rows, R, channels), "z": draw(R, R, CONFIG["pair"]),
                "msa_mask": mask(rows, R), "pair_mask": mask(R, R)}

    def test_extra_msa_stack(self):
        self.check("extra_msa_stack", extra_msa_stack(CONFIG),
                   self.stack_inputs(E, CONFIG["extra_msa"]),
                   lambda p, c, x: {"z": reference.extra_msa_stack(p, c, **x)},
                   given=["msa_mask", "pair_mask"])

    def test_evoformer(self):
        self.check("evoformer", evoformer(CONFIG), self.stack_inputs(S, CONFIG["msa"]),
                   lambda p, c, x: dict(zip("mzs", reference.evoformer(p, c, **x))),
                   given=["msa_mask", "pair_mask"])

    def test_invariant_point_attention(self):
        def expected(p, c, x):
            frames = x["rotation"], x["translation"]
            return {"y": reference.ipa(p, c, x["s"], x["z"], frames, x["mask"])}
        inputs = {"s": draw(R, CONFIG["single"]), "z": draw(R, R, CONFIG["pair"]),
                  "rotation": rotations(R), "translation": draw(R, 3), "mask": mask(R)}
        self.check("ipa", ipa(CONFIG), inputs, expected, given=["mask"])

    def test_all_atom(self):
        """Of every amino acid, and of an unknown one."""
        def expected(p, c, x):
            frames = x["rotation"], x["translation"]
            r, t, positions = reference.all_atom(CHEMISTRY, frames, x["angles"], x["aatype"])
            return {"rotation": r, "translation": t, "positions": positions,
                    "beta": reference.pseudo_beta(positions, x["aatype"])}
        inputs = {"rotation": rotations(21), "translation": draw(21, 3), "angles": angles(21, 7),
                  "aatype": torch.arange(21)}
        self.check("all_atom", {}, inputs, expected)

    def test_structure_module(self):
        def expected(p, c, x):
            return reference.structure_module(p, c, CHEMISTRY, x["s"], x["z"], x["aatype"], x["mask"])
        inputs = {"s": draw(R, CONFIG["single"]), "z": draw(R, R, CONFIG["pair"]),
                  "aatype": features()["aatype"], "mask": mask(R)}
        self.check("structure_module", structure_module(CONFIG), inputs, expected, given=["mask"])

    def test_heads(self):
        c = CONFIG
        inputs = {"m": draw(S, R, c["msa"]), "z": draw(R, R, c["pair"]),
                  "s": draw(R, c["single"]), "structure": draw(R, c["single"])}
        self.check("heads", heads(c), inputs, lambda p, c, x: reference.heads(p, c, **x))

    def whole(self, templates):
        """Where all keys of a row are masked, logits are rounded as numbers of 1e9 are."""
        def expected(p, c, x):
            passes = [{n[2:]: t for n, t in x.items() if n.startswith(f"{i}.")} for i in (0, 1)]
            return reference.alphafold(p, c, CHEMISTRY, passes)
        inputs = {f"{i}.{n}": x for i in (0, 1) for n, x in features(templates).items()}
        self.check("alphafold", alphafold(CONFIG), inputs, expected, given=inputs, tolerance=2e-6)

    def test_alphafold_with_templates(self):
        self.whole(T)

    def test_alphafold_without_templates(self):
        self.whole(0)


def near(frames, scale):
    """Frames a little turned and shifted."""
    turns = [reference.update_frame(u) for u in 0.2 * draw(len(frames[0]), 6)]
    r, t = (torch.stack(part) for part in zip(*turns))
    return reference.compose(frames, (r, scale * t))


class Losses(Parity):
    # Of every kind of loss: symmetric atoms, a gap, a proline behind a bond, two cysteines, a glycine.
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
        r, t, x = reference.all_atom(CHEMISTRY, backbone, torsions, kinds)
        other_r, other_t, _ = reference.all_atom(CHEMISTRY, backbone, turned, kinds)
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
            "pseudo_beta": reference.pseudo_beta(x, kinds), "pseudo_beta_mask": mask(count),
            "all_atom_positions": 5 * draw(count, 37, 3), "all_atom_mask": mask(count, 37),
            "bert_mask": mask(S, count), "true_msa": torch.randint(0, 23, (S, count)),
            "resolution": torch.tensor(2.5).double(), "use_clamped_fape": torch.tensor(0.7).double()}
        truth["all_atom_positions"][:, 1] = x[:, 1]
        layers = [near(backbone, 4), near(backbone, 1)]
        raw = 2 * torch.stack([torsions, turned]) + 0.5 * draw(2, count, 7, 2)
        found = {"backbone_rotation": torch.stack([r for r, _ in layers]),
                 "backbone_translation": torch.stack([t for _, t in layers]),
                 "raw_angles": raw, "angles": raw / torch.linalg.norm(raw, dim=-1, keepdim=True)}
        r, t, x = reference.all_atom(CHEMISTRY, layers[-1], found["angles"][-1], kinds)
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
                       lambda p, c, x: reference_losses.violations(CHEMISTRY, x["positions"], truth),
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
