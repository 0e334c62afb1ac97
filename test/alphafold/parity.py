"""What the parity tests share: a module is run by alphafold_parity on numbers that were drawn here,
and its results and gradients are compared with those of a reference. The two sides meet by files."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch

import reference_structure as structure
import tensor_file

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parent.parent / "models" / "alphafold" / "chemistry.json"
CHEMISTRY = structure.Chemistry(json.loads(TABLES.read_text()))

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

R, S, E, T = 6, 4, 5, 3


def draw(*sizes):
    return torch.randn(sizes, dtype=torch.float64)


def mask(*sizes):
    """About three of four are there; the first always."""
    found = (torch.rand(*sizes, dtype=torch.float64) < 0.75).double()
    found[0] = 1
    return found


def angles(*sizes):
    turned = torch.rand(*sizes, dtype=torch.float64) * 6.2832
    return torch.stack([torch.sin(turned), torch.cos(turned)], -1)


def rotations(count):
    return torch.stack([structure.update_frame(u)[0] for u in draw(count, 6)])


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
