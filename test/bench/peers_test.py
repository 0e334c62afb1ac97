"""The peers compute what they are said to: each backward is the gradient of its forward, in both
forms; and every entry of the workload files has a peer that runs."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace

try:
    import torch
except ImportError:
    print("bench_peers needs torch, which is not installed")
    sys.exit(77)  # ctest shows the test as skipped

SOURCE = os.environ["KILN_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "bench"))
import peers_ops as ops  # noqa: E402
import peers_timing  # noqa: E402


def normal(*shape):
    return torch.randn(*shape)


def gradients(function, inputs, *outputs):
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    return torch.autograd.grad(function(*inputs), inputs, outputs)


class Backward(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def agree(self, results, expected):
        results = results if isinstance(results, tuple) else (results,)
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-4)

    def test_norms(self):
        dy, x, gamma, beta, mean, rstd = ops.make_layer_norm_backward(normal, 8, 32, torch.float32)
        expected = gradients(ops.plain_layer_norm, (x, gamma, beta), dy)
        for form in ops.layer_norm_backward, ops.plain_layer_norm_backward:
            self.agree(form(dy, x, gamma, beta, mean, rstd), expected)
        dy, x, gamma, rstd = ops.make_rms_norm_backward(normal, 8, 32, torch.float32)
        self.agree(ops.plain_rms_norm_backward(dy, x, gamma, rstd),
                   gradients(ops.rms_norm, (x, gamma), dy))

    def test_softmax(self):
        dy, x, mask = normal(8, 32), normal(8, 32), normal(8, 32) > -1
        self.agree(ops.softmax_backward(dy, ops.softmax(x)), gradients(ops.softmax, (x,), dy))
        self.agree(ops.log_softmax_backward(dy, ops.log_softmax(x)),
                   gradients(ops.log_softmax, (x,), dy))
        masked = lambda x: ops.masked_softmax(x, mask)
        self.agree(ops.masked_softmax_backward(dy, masked(x)), gradients(masked, (x,), dy))

    def test_cross_entropy(self):
        case = ops.make_cross_entropy_backward(normal, 8, 32, torch.float32)
        x, _, target, _, dloss = case
        loss = lambda x: ops.cross_entropy(x, target)
        for form in ops.cross_entropy_backward, ops.plain_cross_entropy_backward:
            self.agree(form(*case), gradients(loss, (x,), dloss))
        scale = torch.tensor(0.25)
        for form in ops.cross_entropy_with_gradient, ops.plain_cross_entropy_with_gradient:
            self.agree(form(x, target, scale),
                       (loss(x), *gradients(loss, (x,), scale.expand(8))))

    def test_loss_of_all_rows(self):
        x, target = ops.make_cross_entropy(normal, 8, 32, torch.float32)
        loss = lambda x: ops.cross_entropy_loss(x, target)
        expected = (loss(x), *gradients(loss, (x,), torch.ones(())))
        for form in ops.cross_entropy_loss_with_gradient, ops.plain_cross_entropy_loss_with_gradient:
            self.agree(form(x, target), expected)
        self.agree(ops.plain_cross_entropy_loss(x, target), expected[:1])

    def test_activations(self):
        dy, x = normal(8, 32), normal(8, 32)
        for name in "gelu", "silu":
            forward, backward = (ops.case_of(name, way).aten for way in (ops.FORWARD, ops.BACKWARD))
            self.agree(backward(dy, x), gradients(forward, (x,), dy))

    def test_gates(self):
        dy, x, g, bias = normal(8, 32), normal(8, 32), normal(8, 32), normal(32)
        self.agree(ops.gate_backward(dy, x, torch.sigmoid(g + bias)),
                   gradients(ops.gate, (x, g, bias), dy))
        for form in ops.swiglu_backward, ops.plain_swiglu_backward:
            self.agree(form(dy, g, x, torch.nn.functional.silu(g)),
                       gradients(ops.swiglu, (g, x), dy))


class Scripts(unittest.TestCase):
    def report(self, script, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            run = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", script), "--tiny",
                                  f"--json={path}", *options], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_every_entry_has_a_time(self):
        folder = os.path.join(SOURCE, "bench", "workloads")
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".txt"):
                continue
            report = self.report("peers_rows.py", "--no-compile",
                                 f"--workload={os.path.join(folder, name)}")
            self.assertTrue(report["timings"])
            for line in report["timings"]:
                # The one operation that torch has for GPUs only.
                if not (line["what"].startswith("rms_norm") and line["direction"] == "backward"):
                    self.assertGreater(line.get("microseconds", 0), 0, line)

    def test_every_routed_cell_has_a_time(self):
        cells = f"--workload={os.path.join(SOURCE, 'bench', 'routed_cells.txt')}"
        timings = self.report("peers_routed.py", cells)["timings"]
        for line in timings:
            self.assertGreater(line.get("microseconds", 0), 0, line)
        keys = [(line["what"], line["shape"], line["dtype"], line["direction"]) for line in timings]
        self.assertEqual(len(set(keys)), len(keys))
        for direction in "forward", "backward", "forward, host", "backward, host":
            self.assertIn(("layer_norm", "65536x128", "bf16", direction), keys)

    def test_what_does_not_fit_into_the_time_is_named(self):
        cells = f"--workload={os.path.join(SOURCE, 'bench', 'routed_cells.txt')}"
        timings = self.report("peers_routed.py", cells, "--seconds=-1")["timings"]
        self.assertGreater(len(timings), 50)
        for line in timings:
            self.assertEqual(line["trouble"], "left out: does not fit into --seconds=-1")

    def test_adamw(self):
        for line in self.report("peers_adamw.py")["timings"]:
            self.assertGreater(line.get("microseconds", 0), 0, line)


class Compilers(unittest.TestCase):
    entries = [SimpleNamespace(what=what) for what in "abcde"]

    def test_a_process_compiles_its_part_and_measures_nothing(self):
        compiled = []

        def compile_one(entry):
            compiled.append(entry.what)
            if entry.what == "b":
                raise RuntimeError("b cannot be compiled")  # the others are compiled nevertheless

        given = SimpleNamespace(part="1/2", compilers=2)
        self.assertEqual(peers_timing.compiled_first(self.entries, compile_one, given), [])
        self.assertEqual(compiled, ["b", "d"])

    def test_without_them_nothing_is_compiled_beforehand(self):
        given = SimpleNamespace(part=None, compilers=0)
        self.assertEqual(peers_timing.compiled_first(self.entries, self.fail, given), self.entries)


if __name__ == "__main__":
    unittest.main()
