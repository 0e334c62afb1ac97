"""Several processes that tune one list into one store, of which one is killed at random moments,
again and again: every task gets its choice, nothing is damaged, nobody waits for the dead. Run by
ctest with KERNEL_COMPILE naming the program; see launched.py."""

import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from launched import LIMIT, REPEAT

COMMAND = os.environ["KERNEL_COMPILE"]
SHAPES = [(rows, 64 << i) for i in range(8) for rows in (1024, 4096, 16384)]


class Tuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.workload = self.folder / "w.txt"
        self.workload.write_text("".join(f"softmax {rows}x{width} bf16 1%\n"
                                         for rows, width in SHAPES))

    def begin(self, store):
        process = subprocess.Popen(
            [COMMAND, "tune", f"--workload={self.workload}", f"--store={store}", "--jobs=1",
             "--effort=full", "--device=simulated", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.poll() is None and process.kill(),
                                 process.stdout.close(), process.stderr.close(), process.wait()))
        return process

    def end(self, process):
        out, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(out)["jobs"]

    def test_a_list_is_tuned_once(self):
        store = self.folder / "tuned.db"
        both = [self.begin(store) for _ in range(2)]
        jobs = [self.end(process) for process in both]
        for one, other in zip(*jobs, strict=True):
            self.assertEqual(one["schedule"], other["schedule"])
            self.assertTrue(one["schedule"])
            self.assertNotEqual(one["known"], other["known"], "tuned by one of the two")

    def test_killed_processes_lose_nothing(self):
        """Of two at work one is killed; the other goes on, and takes what the dead one held."""
        drawn = random.Random(1)
        store, killed, finished = self.folder / "tuned.db", 0, 0
        processes = [self.begin(store), self.begin(store)]
        while killed < REPEAT:
            time.sleep(drawn.uniform(0, 1.5))
            victim = drawn.randrange(2)
            if processes[victim].poll() is None:
                os.kill(processes[victim].pid, signal.SIGKILL)
                processes[victim].wait(timeout=LIMIT)
                killed += 1
            for i in range(2):  # where all is tuned a new store begins
                if processes[i].poll() not in (None, -signal.SIGKILL):
                    self.check(store, self.end(processes[i]))
                    finished += 1
                    store = self.folder / f"tuned{finished}.db"
                    processes[1 - i].communicate(timeout=LIMIT)
                    processes = [self.begin(store), self.begin(store)]
                    break
            else:
                processes[victim] = self.begin(store)
        for process in processes:
            self.check(store, self.end(process))

    def check(self, store, jobs):
        """All have a choice of their own time, and the file is whole."""
        self.assertEqual(len(jobs), len(SHAPES))
        for job in jobs:
            self.assertEqual(job["source"], "measured", job)
        subprocess.run([COMMAND, "cache", "doctor", store], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
