"""bench/models.py in tiny sizes on a CPU: every model trains, with Kiln too, whose kernels the host
target executes, and the tables come of it. Models of transformers are skipped where that is missing."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("bench_models needs torch, which is not installed")
    sys.exit(77)  # ctest shows the test as skipped

SCRIPT = os.path.join(os.environ["KILN_SOURCE"], "bench", "models.py")
HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
sys.path.insert(0, os.path.dirname(SCRIPT))
import model_shares  # noqa: E402
from model_zoo import MODELS, NEED_NOTHING  # noqa: E402


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          check=False)


class Models(unittest.TestCase):
    def lines(self, *arguments):
        """Of the JSON by model and mode, and the Markdown."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "models.json")
            result = run("--device=cpu", "--tiny", "--steps=2", f"--json={path}",
                         f"--library={os.environ['KILN_TORCH_LIBRARY']}", *arguments)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(path, encoding="utf-8") as file:
                lines = json.load(file)["lines"]
        return {(line["model"], line["mode"]): line for line in lines}, result.stdout

    def check_kiln(self, name):
        lines, text = self.lines(f"--models={name}", "--modes=eager,kiln")
        eager, ours = lines[name, "eager"], lines[name, "kiln"]
        self.assertAlmostEqual(eager["loss"], ours["loss"], delta=0.05 * eager["loss"])
        self.assertIn("the cost model's choice", ours["report"])
        gain = ours["gain_over"]["eager"]  # of one turn of two steps
        self.assertAlmostEqual(gain, eager["step_ms"] / ours["step_ms"], places=6)
        self.assertIn(f"| {gain:.3f} |", text)
        self.assertNotIn("gain_over", eager)
        self.assertGreater(eager["kernels_ms"]["layer_norm"], 0)
        self.assertGreater(eager["kernels_ms"]["all"], eager["kernels_ms"]["layer_norm"])
        self.assertRegex(text, rf"\| {name} \| layer_norm \| [0-9.]+% ")
        return text

    def test_encoder_with_kiln(self):
        self.check_kiln("encoder")

    @unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
    def test_gpt2_with_kiln(self):
        self.check_kiln("gpt2")

    @unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
    def test_norms_written_out_are_named(self):
        _, text = self.lines("--models=t5", "--modes=kiln")
        self.assertRegex(text, r"t5 writes norms out in single ops \(\d+x32 Float, \d+ calls\)")

    @unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
    def test_every_model_trains(self):
        lines, text = self.lines("--modes=eager")
        self.assertEqual({model for model, _ in lines}, set(MODELS))
        for line in lines.values():
            self.assertGreater(line["step_ms"], 0, line)
            self.assertIn(f"| {line['model']} | {line['parameters']:,} |", text)

    def test_what_is_missing_is_named(self):
        for arguments, expected in [
                (["--models=gpt9"], "no model 'gpt9'; known are gpt2, vit"),
                (["--modes=fast"], "no mode 'fast'; known are eager, kiln, compile, both"),
                (["--steps=0", "--modes=eager"], "--steps=0: at least 1"),
                (["--library=nowhere.so"], "no library 'nowhere.so'; build the target kiln_torch")]:
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(expected, result.stderr)
        self.assertLessEqual(NEED_NOTHING, set(MODELS))


class Shares(unittest.TestCase):
    def test_the_outermost_routed_op_counts(self):
        outer = type("Event", (), {"name": "aten::cross_entropy_loss", "cpu_parent": None})
        inner = type("Event", (), {"name": "aten::_log_softmax", "cpu_parent": outer})
        cast = type("Event", (), {"name": "aten::copy_", "cpu_parent": inner})
        self.assertEqual(model_shares.family_of(cast), "cross_entropy")
        node = type("Event", (), {"cpu_parent": None, "name":
                                  "autograd::engine::evaluate_function: KilnSoftmaxBackward"})
        self.assertEqual(model_shares.family_of(node), "softmax")
        self.assertIsNone(model_shares.family_of(
            type("Event", (), {"name": "aten::mm", "cpu_parent": None})))

    def test_times_of_a_step(self):
        norm, x = torch.nn.LayerNorm(64), torch.randn(256, 64)
        times = model_shares.times_by_family(lambda: norm(x).exp(), 2, "cpu")
        self.assertLess(0, times["layer_norm"])
        self.assertLess(times["layer_norm"], times["all"])


if __name__ == "__main__":
    unittest.main()
