"""train_alphafold in several ranks: the curve, dropout included, and the weights of one process with
the joined batch, going on bit by bit, and ranks that are killed or hang. Run by ctest with
TRAIN_ALPHAFOLD and ALPHAFOLD_FEATURES naming the programs; see launched.py."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "alphafold_commands"))
import small_protein
from launched import REPEAT, TORCHRUN, Launched, gpus, tensors_of


def floats_of(path):
    """Of weights, by name."""
    return {name: struct.unpack(f"<{len(data) // 4}f", data)
            for name, (_, _, data) in tensors_of(path).items()}


class Proteins(Launched):
    """Two of them."""
    program, limit = os.environ["TRAIN_ALPHAFOLD"], 120

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.proteins = pathlib.Path(folder.name) / "proteins"
        features = pathlib.Path(folder.name) / "features"
        small_protein.write(cls.proteins, "1abc")
        small_protein.write(cls.proteins, "2xyz", sequence="GSHWLKKAEDIVRQYFTN", turn=96.0)
        subprocess.run([os.environ["ALPHAFOLD_FEATURES"], f"--structures={cls.proteins}",
                        f"--alignments={cls.proteins}", f"--output={features}"], check=True,
                       capture_output=True)
        cls.flags = ["--model=tiny", "--crop=16", "--msa-clusters=6", "--extra-msa=6",
                     "--recycling=2", "--log-every=1", "--warmup=5", "--clip=1", "--workers=1",
                     f"--data={features}"]

    def have_the_curve_of_one_process(self, *ways):
        validated = [f"--validation={self.proteins}", "--evaluate-every=4", "--steps=8"]
        self.train(*validated, "--batch=4")
        one = self.losses()
        weights = floats_of(self.out / "weights.safetensors")
        for flags in ways:
            with self.subTest(flags):
                out = self.folder / "-".join(flags)
                said = self.train(*validated, *flags, out=out)
                for a, b in zip(one, self.losses(out), strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-3 * a)
                self.assertIn(f", {flags[0][-1]} ranks", said)
                self.assertEqual(said.count("validation: loss"), 2, said)
                for name, values in floats_of(out / "weights.safetensors").items():
                    for a, b in zip(weights[name], values, strict=True):
                        self.assertAlmostEqual(a, b, delta=1e-3, msg=name)


class Ranks(Proteins):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flags.append("--device=cpu")

    def test_ranks_have_the_curve_of_one_process(self):
        self.have_the_curve_of_one_process(
            ["--nproc=2", "--batch=2"],
            ["--nproc=4", "--batch=1", "--reduce=flat", "--workers=3"],
            ["--nproc=2", "--batch=2", "--reduce=bucketed", "--bucket-mib=0.01",
             "--recompute=blocks"])

    def test_features_are_made_once(self):
        said = self.train("--nproc=2", "--steps=1", f"--data={self.proteins}")
        self.assertEqual(said.count("2 chains made, 0 there already, 0 left out"), 1, said)

    def test_kiln_trains_alike(self):
        flags = ["--nproc=2", "--steps=3", "--recycling=1"]
        self.train(*flags)
        on = self.folder / "on"
        said = self.train(*flags, "--kiln=on", out=on, environment={"KILN_PLACE": "cpu"})
        told = [line for line in said.splitlines() if "native_layer_norm " in line]
        self.assertTrue(told, said)
        self.assertFalse([line for line in told if line.startswith("[rank 1]")], "rank 0 alone reports")
        for a, b in zip(self.losses(), self.losses(on), strict=True):
            self.assertAlmostEqual(a, b, delta=2e-3 * a)

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        whole = self.stopped_run_goes_on("--nproc=2", "--batch=2", steps=40)
        name = "step-000040.safetensors"
        self.assertEqual(tensors_of(self.out / name), tensors_of(whole / name))

    def test_killed_ranks_cost_what_was_not_saved(self):
        steps = 12 * REPEAT
        whole = self.killed_ranks_lose_nothing(f"--steps={steps}", "--checkpoint-every=2")
        name = f"step-{steps:06}.safetensors"
        self.assertEqual(tensors_of(self.out / name), tensors_of(whole / name))

    def test_a_rank_that_hangs_ends_the_run_within_the_limit(self):
        self.hanging_rank_is_named()

    def test_a_rank_that_is_killed_elsewhere_ends_the_run(self):
        self.killed_rank_is_named()

    def test_losses_that_are_not_finite_end_all_ranks(self):
        errors = self.train("--nproc=2", "--learning-rate=1000", "--warmup=0", "--clip=0",
                            "--steps=60", status=1)
        self.assertIn("10 steps in a row had losses that are not finite", errors)

    def test_refusals(self):
        self.assertIn("--nproc=-1", self.train("--nproc=-1", status=1))
        self.assertIn("--reduce=sometimes", self.train("--reduce=sometimes", status=1))
        self.assertIn("holds no checkpoint", self.train("--nproc=2", "--resume=latest", status=1))

    def test_bench_times_ranks(self):
        lines = [json.loads(line) for line in
                 self.train("--nproc=2", "--bench=1").splitlines()]
        self.assertEqual([line["passes"] for line in lines], [1, 2])
        self.assertEqual({line["ranks"] for line in lines}, {2})

    @unittest.skipUnless(TORCHRUN, "there is no torchrun")
    def test_torchrun_restarts_what_was_killed(self):
        self.torchrun_restarts("--checkpoint-every=3", steps=60, after=4)


@unittest.skipUnless(gpus() > 1, "there are no two GPUs")
class RanksOnGpus(Proteins):
    """By NCCL."""

    def test_ranks_have_the_curve_of_one_process(self):
        ways = [["--nproc=2", "--batch=2"], ["--nproc=2", "--batch=2", "--reduce=flat"]]
        if gpus() > 3:
            ways.append(["--nproc=4", "--batch=1"])
        self.have_the_curve_of_one_process(*ways)

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        self.stopped_run_goes_on("--nproc=2", "--batch=2", steps=40)

    def test_a_rank_that_hangs_ends_the_run_soon(self):
        self.hanging_rank_is_named(ranks=2, within=27)


if __name__ == "__main__":
    unittest.main()
