"""train_lm in several ranks as a person meets it: the curve of one process, going on bit by bit,
and ranks that are killed, stopped or left alone at any moment, which costs the steps since the last
checkpoint, seconds, and nothing else.
Run by ctest with TRAIN_LM naming the program; KILN_REPEAT is how often ranks are killed."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["TRAIN_LM"]
TORCHRUN = os.environ.get("TORCHRUN", "")
REPEAT = int(os.environ.get("KILN_REPEAT", "10"))
TEXT = pathlib.Path(__file__).parent.parent / "lm" / "shakespeare.txt"
SMALL = ["--width=16", "--hidden=32", "--layers=1", "--heads=2", "--context=16", "--device=cpu",
         "--warmup=3", "--log-every=1", "--evaluate-every=0", f"--data={TEXT}"]
LIMIT = 60  # seconds, of any run here


def children_of(process):
    """In the order of their ranks, which is that of their start."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(number) for number in path.read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "run"

    def train(self, *flags, status=0, out=None, command=(PROGRAM,)):
        run = subprocess.run([*command, *SMALL, f"--out={out or self.out}", *flags],
                             capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout if status == 0 else run.stderr

    def begin(self, *flags):
        process = subprocess.Popen([PROGRAM, *SMALL, f"--out={self.out}", *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.poll() is None and process.kill(),
                                 process.stdout.close(), process.stderr.close(), process.wait()))
        return process

    def losses(self, out=None):
        """By step; what was done twice must have come out the same, to the bit."""
        known = {}
        for line in ((out or self.out) / "log.jsonl").read_text().splitlines():
            entry = json.loads(line)
            before = known.setdefault(entry["step"], entry["loss"])
            self.assertEqual(before, entry["loss"], f"step {entry['step']}")
        return [known[step] for step in sorted(known)]

    def step_of(self, process, wanted):
        for line in process.stdout:
            if line.startswith("step") and int(line.split()[1].split("/")[0]) >= wanted:
                return
        self.fail(process.stderr.read())

    def test_ranks_have_the_curve_of_one_process(self):
        self.train("--steps=12", "--batch=8", "--accumulate=2", "--evaluate-every=6")
        one = self.losses()
        for flags in (["--nproc=2", "--batch=4"], ["--nproc=4", "--batch=2", "--reduce=flat"],
                      ["--nproc=2", "--batch=4", "--reduce=per-parameter", "--recompute"],
                      ["--nproc=2", "--batch=4", "--reduce=bucketed", "--bucket-mib=0.001",
                       "--kiln=on"]):
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

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        flags = ["--nproc=2", "--batch=4", "--steps=300", "--accumulate=2"]
        whole = self.folder / "whole"
        self.train(*flags, out=whole)
        process = self.begin(*flags)
        self.step_of(process, 3)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        done = int(re.search(r"step-(\d+).safetensors", rest).group(1))
        self.assertLess(done, 300)
        self.train(*flags, "--resume=latest")
        self.assertEqual(self.losses(), self.losses(whole))

    def test_killed_ranks_cost_what_was_not_saved(self):
        """kill -9 of one rank at a random moment, again and again, until the run is through."""
        flags = ["--nproc=2", "--batch=2", "--steps=400", "--checkpoint-every=3", "--peer-limit=20",
                 "--resume=auto"]
        whole = self.folder / "whole"
        self.train(*flags, out=whole)
        drawn = random.Random(1)
        killed = 0
        for _ in range(REPEAT):
            process = self.begin(*flags)
            ends = time.monotonic() + LIMIT
            while len(children_of(process)) < 2 and process.poll() is None:
                self.assertLess(time.monotonic(), ends)
                time.sleep(0.01)
            time.sleep(drawn.uniform(0, 1.6))
            ranks = children_of(process)
            victim = drawn.randrange(len(ranks)) if ranks else None
            if victim is None:
                continue  # it was through before
            os.kill(ranks[victim], signal.SIGKILL)
            begin = time.monotonic()
            _, errors = process.communicate(timeout=LIMIT)
            if process.returncode != 0:
                killed += 1
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, errors)
                self.assertIn(f"rank {victim} of 2 was ended by signal 9", errors)
                self.assertLess(time.monotonic() - begin, 10)
            self.assertFalse(any(is_alive(rank) for rank in ranks))
        self.assertGreater(killed, REPEAT // 2)
        self.train(*flags)
        self.assertEqual(self.losses()[-1], self.losses(whole)[-1])
        for step, (a, b) in enumerate(zip(self.losses(), self.losses(whole), strict=True)):
            self.assertEqual(a, b, step)

    def test_a_rank_that_hangs_ends_the_run_within_the_limit(self):
        process = self.begin("--nproc=3", "--batch=2", "--steps=1000000", "--peer-limit=3")
        self.step_of(process, 2)
        os.kill(children_of(process)[2], signal.SIGSTOP)
        begin = time.monotonic()
        _, errors = process.communicate(timeout=LIMIT)
        self.assertLess(time.monotonic() - begin, 3 + 12)
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, r"rank [01] of 3: \S+ of \d+ bytes at step \d+ failed "
                                 r"\(time limit 3 s\): .*no answer from rank 2")

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

    def test_refusals(self):
        self.assertIn("--nproc=-1", self.train("--nproc=-1", status=1))
        self.assertIn("--reduce=sometimes", self.train("--reduce=sometimes", status=1))
        self.assertIn("--peer-limit=0", self.train("--peer-limit=0", status=1))
        self.assertIn("--wire=fp8", self.train("--wire=fp8", status=1))
        for variables, expected in (({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2: a whole number of 0 to 1"),
                                    ({"RANK": "0"}, "WORLD_SIZE is not set"),
                                    ({"RANK": "0", "WORLD_SIZE": "zwei"}, "WORLD_SIZE=zwei"),
                                    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "99999"},
                                     "MASTER_PORT=99999")):
            run = subprocess.run([PROGRAM, *SMALL, f"--out={self.out}"], capture_output=True,
                                 text=True, timeout=LIMIT, env=os.environ | variables)
            self.assertEqual(run.returncode, 1)
            self.assertIn(expected, run.stderr)

    def test_a_rank_that_never_comes_is_named(self):
        run = subprocess.run([PROGRAM, *SMALL, f"--out={self.out}", "--peer-limit=2"],
                             capture_output=True, text=True, timeout=LIMIT,
                             env=os.environ | {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                                               "MASTER_PORT": str(random.randrange(20000, 60000))})
        self.assertEqual(run.returncode, 1)
        self.assertIn("rank 1, 2 has not come", run.stderr)

    @unittest.skipUnless(TORCHRUN, "there is no torchrun")
    def test_torchrun_restarts_what_was_killed(self):
        process = subprocess.Popen(
            [TORCHRUN, "--nproc-per-node=2", "--max-restarts=1", "--no-python", PROGRAM, *SMALL,
             "--batch=2", "--steps=300", "--checkpoint-every=5", "--resume=auto",
             "--peer-limit=20", f"--out={self.out}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.wait()))
        self.step_of(process, 6)
        os.kill(children_of(process)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(len(self.losses()), 300)


if __name__ == "__main__":
    unittest.main()
