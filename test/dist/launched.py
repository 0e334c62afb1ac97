"""A trainer in several ranks, for tests as a person meets it: started, read, killed and gone on with.
KILN_REPEAT is how often ranks are killed: a few times, or, with more time, 50."""

import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

TORCHRUN = os.environ.get("TORCHRUN", "")
REPEAT = int(os.environ.get("KILN_REPEAT", "5"))
LIMIT = 60  # seconds, of any run here, unless a class says otherwise


def children_of(process):
    """In the order of their ranks, which is that of their start."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(number) for number in path.read_text().split()]
    except FileNotFoundError:
        return []


def tensors_of(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in json.loads(data[8:8 + length]).items() if name != "__metadata__"}


def gpus():
    """Those that CUDA_VISIBLE_DEVICES leaves; nvidia-smi lists all."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = listed.stdout.count("GPU ")
    return count if visible is None else min(count, len([one for one in visible.split(",") if one]))


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Launched(unittest.TestCase):
    """Of a program with flags that all its runs have; `folder` is a test's own."""
    program, flags, limit = "", [], LIMIT

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "run"

    def train(self, *flags, status=0, out=None, environment=None):
        run = subprocess.run([self.program, *self.flags, f"--out={out or self.out}", *flags],
                             capture_output=True, text=True, timeout=self.limit,
                             env=os.environ | (environment or {}))
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout if status == 0 else run.stderr

    def begin(self, *flags, command=(), environment=None):
        process = subprocess.Popen([*command, self.program, *self.flags, f"--out={self.out}", *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | (environment or {}))
        self.addCleanup(lambda: (process.poll() is None and process.kill(),
                                 process.stdout.close(), process.stderr.close(), process.wait()))
        return process

    def losses(self, out=None):
        """By step; what was done twice must have come out the same, to the bit."""
        known = {}
        for line in ((out or self.out) / "log.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if "loss" in entry:
                before = known.setdefault(entry["step"], entry["loss"])
                self.assertEqual(before, entry["loss"], f"step {entry['step']}")
        return [known[step] for step in sorted(known)]

    def step_of(self, process, wanted):
        for line in process.stdout:
            if line.startswith("step") and int(line.split()[1].split("/")[0]) >= wanted:
                return
        self.fail(process.stderr.read())

    def stopped_run_goes_on(self, *flags, steps, after=3):
        """SIGTERM to the launcher, and the same command again: the curve of a run in one go."""
        flags = [*flags, f"--steps={steps}"]
        whole = self.folder / "whole"
        self.train(*flags, out=whole)
        process = self.begin(*flags)
        self.step_of(process, after)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=self.limit)
        self.assertEqual(process.returncode, 0, errors)
        done = int(re.search(r"step-(\d+).safetensors", rest).group(1))
        self.assertLess(done, steps)
        self.train(*flags, "--resume=latest")
        self.assertEqual(self.losses(), self.losses(whole))
        return whole

    def killed_ranks_lose_nothing(self, *flags, repeat=REPEAT):
        """kill -9 of one of two ranks at a random moment, again and again, and then a run until it is
        through: the curve of one that nobody disturbed. Moments go by how long that one took, so that
        on no machine all is done before the last of them."""
        flags = ["--nproc=2", "--peer-limit=20", "--resume=auto", *flags]
        whole = self.folder / "whole"
        begin = time.monotonic()
        self.train(*flags, out=whole)
        most = 1.5 * (time.monotonic() - begin) / repeat
        drawn = random.Random(1)
        killed = 0
        for _ in range(repeat):
            process = self.begin(*flags)
            ends = time.monotonic() + self.limit
            while len(children_of(process)) < 2 and process.poll() is None:
                self.assertLess(time.monotonic(), ends)
                time.sleep(0.01)
            time.sleep(drawn.uniform(0, most))
            ranks = children_of(process)
            victim = drawn.randrange(len(ranks)) if ranks else None
            if victim is None:
                continue  # it was through before
            os.kill(ranks[victim], signal.SIGKILL)
            begin = time.monotonic()
            _, errors = process.communicate(timeout=self.limit)
            if process.returncode != 0:
                killed += 1
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, errors)
                self.assertIn(f"rank {victim} of 2 was ended by signal 9", errors)
                self.assertLess(time.monotonic() - begin, 10)
            self.assertFalse(any(is_alive(rank) for rank in ranks))
        self.assertGreater(killed, repeat // 2)
        self.train(*flags)
        for step, (a, b) in enumerate(zip(self.losses(), self.losses(whole), strict=True)):
            self.assertEqual(a, b, step)
        return whole

    def hanging_rank_is_named(self, *flags, ranks=3, within=12):
        process = self.begin(f"--nproc={ranks}", "--steps=1000000", "--peer-limit=3", *flags)
        self.step_of(process, 2)
        delay = random.uniform(0, 0.5)  # what the others wait in, on the host or the device
        time.sleep(delay)
        os.kill(children_of(process)[ranks - 1], signal.SIGSTOP)
        begin = time.monotonic()
        _, errors = process.communicate(timeout=self.limit)
        self.assertLess(time.monotonic() - begin, 3 + within, f"stopped after {delay} s: {errors}")
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, rf"rank [01] of {ranks}: \S+ of \d+ bytes at step \d+ failed "
                                 rf"\(time limit 3 s\): .*no answer from rank {ranks - 1}")

    def killed_rank_is_named(self, *flags):
        """By the rank that is left, where no launcher ends it: as on another machine."""
        port = str(random.randrange(20000, 60000))
        ranks = [self.begin("--steps=1000000", "--peer-limit=5", *flags,
                            environment={"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                                         "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": port})
                 for rank in range(2)]
        self.step_of(ranks[0], 2)
        ranks[1].kill()
        begin = time.monotonic()
        _, errors = ranks[0].communicate(timeout=self.limit)
        self.assertLess(time.monotonic() - begin, 5 + 12)
        self.assertEqual(ranks[0].returncode, 1, errors)
        self.assertRegex(errors, r"rank 0 of 2: \S+ of \d+ bytes at step \d+ failed "
                                 r"\(time limit 5 s\): .*rank 1")

    def torchrun_restarts(self, *flags, steps, after):
        """By a torchrun that picks a free port: its usual one may be another test's just now."""
        process = self.begin("--resume=auto", "--peer-limit=20", f"--steps={steps}", *flags,
                             command=[TORCHRUN, "--standalone", "--nproc-per-node=2",
                                      "--max-restarts=1", "--no-python"])
        self.step_of(process, after)
        os.kill(children_of(process)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=self.limit)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(len(self.losses()), steps)
