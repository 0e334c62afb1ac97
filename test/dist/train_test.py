"""train_lm in several ranks: the curve of one process, going on bit by bit, and ranks that are killed,
stopped or left alone at any moment, which costs the steps since the last checkpoint, seconds, and
nothing else. Run by ctest with TRAIN_LM naming the program; see launched.py."""

import os
import pathlib
import random
import time
import unittest

from launched import REPEAT, TORCHRUN, Launched, children_of, gpus, is_alive, tensors_of

TEXT = pathlib.Path(__file__).parent.parent / "lm" / "shakespeare.txt"
SMALL = ["--width=16", "--hidden=32", "--layers=1", "--heads=2", "--context=16", "--device=cpu",
         "--warmup=3", "--log-every=1", "--evaluate-every=0", f"--data={TEXT}"]


class Ranks(Launched):
    program, flags = os.environ["TRAIN_LM"], SMALL

    def test_ranks_have_the_curve_of_one_process(self):
        self.train("--steps=12", "--batch=8", "--accumulate=2", "--evaluate-every=6")
        one = self.losses()
        for flags in (["--nproc=2", "--batch=4"], ["--nproc=4", "--batch=2", "--reduce=flat"],
                      ["--nproc=2", "--batch=4", "--reduce=per-parameter", "--recompute"],
                      ["--nproc=2", "--batch=4", "--reduce=bucketed", "--bucket-mib=0.001",
                       "--kiln=on"],
                      ["--nproc=2", "--batch=4", "--kiln=on"],
                      ["--nproc=4", "--batch=2", "--kiln=on", "--shard=optimizer"],
                      ["--nproc=2", "--batch=4", "--kiln=on", "--shard=optimizer", "--recompute"]):
            with self.subTest(flags):
                out = self.folder / "-".join(flags)
                said = self.train("--steps=12", "--accumulate=2", "--evaluate-every=6", *flags,
                                  out=out)
                for a, b in zip(one, self.losses(out), strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-5)
                self.assertIn("ranks", said)
                self.assertEqual(said.count("held-out loss"), 2, said)

    def test_gradients_in_bf16_train_as_well(self):
        self.train("--steps=12", "--batch=8")
        one = self.losses()
        out = self.folder / "bf16"
        self.train("--steps=12", "--nproc=2", "--batch=4", "--wire=bf16", out=out)
        for a, b in zip(one, self.losses(out), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-2)

    def test_weights_in_bf16_have_divided_masters(self):
        """The curve is that of copies beside whole weights, and so is the checkpoint; the run goes on
        from either, in any number of ranks, divided or not."""
        flags = ["--kiln=modules", "--precision=bf16", "--learning-rate=0.02"]
        whole, divided = self.folder / "whole", self.folder / "divided"
        for shard, out in ("none", whole), ("optimizer", divided):
            self.train("--steps=12", "--nproc=2", "--batch=4", f"--shard={shard}", *flags, out=out)
        for a, b in zip(self.losses(whole), self.losses(divided), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-3)
        name = "step-000012.safetensors"
        self.assertEqual(*({of: kind for of, (*kind, _) in tensors_of(run / name).items()}
                           for run in (whole, divided)))
        ends = []
        for i, (run, more) in enumerate((
                (whole, ["--batch=8"]), (divided, ["--batch=8"]),
                (divided, ["--nproc=2", "--batch=4", "--shard=none"]),
                (divided, ["--nproc=2", "--batch=4"]),  # divided as well
                (whole, ["--nproc=4", "--batch=2", "--shard=optimizer"]),
                (divided, ["--nproc=2", "--batch=2", "--accumulate=2", "--shard=optimizer"]))):
            out = self.folder / f"rest-{i}"
            self.train("--steps=20", f"--resume={run / name}", *flags, *more, out=out)
            ends.append(self.losses(out))
        for other in ends[1:]:
            for a, b in zip(ends[0], other, strict=True):
                self.assertAlmostEqual(a, b, delta=3e-3)

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        self.stopped_run_goes_on("--nproc=2", "--batch=4", "--accumulate=2", steps=300)

    def test_a_stopped_run_with_divided_masters_goes_on_bit_by_bit(self):
        self.stopped_run_goes_on("--nproc=2", "--batch=4", "--kiln=modules", "--precision=bf16",
                                 "--shard=optimizer", steps=300)

    def test_killed_ranks_with_a_divided_optimizer_cost_what_was_not_saved(self):
        self.killed_ranks_lose_nothing("--batch=2", "--kiln=on", "--shard=optimizer", "--steps=160",
                                       "--checkpoint-every=3", repeat=min(REPEAT, 4))

    def test_killed_ranks_cost_what_was_not_saved(self):
        self.killed_ranks_lose_nothing("--batch=2", f"--steps={40 * REPEAT}", "--checkpoint-every=3")

    def test_a_rank_that_hangs_ends_the_run_within_the_limit(self):
        self.hanging_rank_is_named("--batch=2")

    def test_a_rank_that_is_killed_elsewhere_ends_the_run(self):
        self.killed_rank_is_named("--batch=2")

    def test_ranks_end_with_their_launcher(self):
        process = self.begin("--nproc=2", "--batch=2", "--steps=1000000")
        self.step_of(process, 1)
        ranks = children_of(process)
        process.kill()
        ends = time.monotonic() + 20
        while any(is_alive(rank) for rank in ranks):
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)

    def test_an_error_of_one_rank_is_the_run_s(self):
        (self.out).mkdir()
        (self.out / "config.json").mkdir()  # only rank 0 writes there
        begin = time.monotonic()
        errors = self.train("--nproc=2", "--steps=1000000", status=1)
        self.assertIn("config.json", errors)
        self.assertIn("rank 0 of 2 ended with exit code 1", errors)
        self.assertLess(time.monotonic() - begin, 20)

    def test_what_rank_0_refuses_is_told_as_that(self):
        """The others wait for it meanwhile, and do not run into a store that is gone."""
        self.train("--steps=1")
        said = self.train("--steps=1", "--nproc=3", status=1)
        self.assertIn("holds checkpoints of a run, up to step-000001.safetensors", said)
        self.assertIn("rank 0 of 3 ended with exit code 1", said)
        for trace in ("c10d", "frame #"):
            self.assertNotIn(trace, said)

    def test_refusals(self):
        self.assertIn("--nproc=-1", self.train("--nproc=-1", status=1))
        self.assertIn("--reduce=sometimes", self.train("--reduce=sometimes", status=1))
        self.assertIn("--peer-limit=0", self.train("--peer-limit=0", status=1))
        self.assertIn("--shard=weights", self.train("--shard=weights", status=1))
        self.assertIn("--shard=optimizer and --kiln=off", self.train("--shard=optimizer", status=1))
        self.assertIn("--wire=fp8", self.train("--wire=fp8", status=1))
        for variables, expected in (({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2: a whole number of 0 to 1"),
                                    ({"RANK": "0"}, "WORLD_SIZE is not set"),
                                    ({"RANK": "0", "WORLD_SIZE": "zwei"}, "WORLD_SIZE=zwei"),
                                    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "99999"},
                                     "MASTER_PORT=99999")):
            self.assertIn(expected, self.train(status=1, environment=variables))

    def test_choices_that_would_change_are_refused(self):
        tuning = {"KILN_MODE": "tune", "KILN_CACHE": str(self.folder / "tuned.db")}
        errors = self.train("--nproc=2", "--kiln=on", status=1, environment=tuning)
        self.assertIn("choices cannot be frozen in mode 'tune'", errors)

    def test_a_rank_that_never_comes_is_named(self):
        place = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                 "MASTER_PORT": str(random.randrange(20000, 60000))}
        errors = self.train("--peer-limit=2", status=1, environment=place)
        self.assertIn("rank 1, 2 has not come", errors)

    @unittest.skipUnless(TORCHRUN, "there is no torchrun")
    def test_torchrun_restarts_what_was_killed(self):
        self.torchrun_restarts("--batch=2", "--checkpoint-every=5", steps=300, after=6)


@unittest.skipUnless(gpus() > 1, "there are no two GPUs")
class RanksOnGpus(Launched):
    """By NCCL and by copy engines, launched one by one and as graphs."""
    program, limit = os.environ["TRAIN_LM"], 120
    flags = [flag for flag in SMALL if "device" not in flag] + ["--kiln=on", "--nproc=2", "--batch=4"]

    def test_graphs_have_the_bits_of_single_launches(self):
        """With evaluations between, for which a divided optimizer's parameters are gathered."""
        halves = ["--kiln=modules", "--precision=bf16"]
        for flags in (["--transport=nccl", "--shard=none"], ["--transport=copy-engines", "--shard=none"],
                      ["--transport=nccl"], ["--transport=copy-engines"],
                      ["--transport=nccl", *halves], ["--transport=copy-engines", *halves]):
            with self.subTest(flags):
                runs = []
                for more in ([], ["--graphs"]):
                    runs.append(self.folder / "-".join([*flags, *more]))
                    self.train("--steps=12", "--evaluate-every=3", *flags, *more, out=runs[-1])
                self.assertEqual(*map(self.losses, runs))
                self.assertEqual(*(tensors_of(run / "step-000012.safetensors") for run in runs))

    def test_transports_have_one_curve(self):
        curves = []
        for transport in ("nccl", "copy-engines", "auto"):
            out = self.folder / transport
            self.train("--steps=12", f"--transport={transport}", out=out)
            curves.append(self.losses(out))
        for other in curves[1:]:
            for a, b in zip(curves[0], other, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        self.stopped_run_goes_on(steps=3000, after=500)

    def test_killed_ranks_cost_what_was_not_saved(self):
        self.killed_ranks_lose_nothing("--steps=400", "--checkpoint-every=20",
                                       repeat=min(REPEAT, 3))

    def test_a_rank_that_hangs_ends_the_run_soon(self):
        for transport in ("nccl", "copy-engines"):
            for shard in ("none", "optimizer"):
                with self.subTest(transport=transport, shard=shard):
                    self.hanging_rank_is_named(f"--transport={transport}", f"--shard={shard}",
                                               ranks=2, within=27)


if __name__ == "__main__":
    unittest.main()
