"""Two builds of a program in turns: a program that is slower is called so, noise is not."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])

# Its report holds the times that a file beside it lists for the next round.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
here = pathlib.Path(sys.argv[0])
rounds = json.loads(here.with_name("rounds").read_text())
here.with_name("rounds").write_text(json.dumps(rounds[1:]))
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if here.name == "rows":
    cells = [{"what": "softmax", "shape": "8x64", "dtype": "bf16", "direction": "forward",
              "settings": {"workload": options.get("--workload", "none")}, "microseconds": time}
             for time in rounds[0]]
    pathlib.Path(options["--json"]).write_text(json.dumps({"timings": cells + [{"trouble": "no"}]}))
else:
    cells = [{"name": f"cell{i}", "real_time": time, "time_unit": "ms"} for i, time in enumerate(rounds[0])]
    pathlib.Path(options["--benchmark_out"]).write_text(json.dumps({"benchmarks": cells}))
"""


class Builds(unittest.TestCase):
    def run_builds(self, program, old, new, *options):
        with tempfile.TemporaryDirectory() as folder:
            for name, rounds in (("old", old), ("new", new)):
                there = pathlib.Path(folder) / name / "bin"
                there.mkdir(parents=True)
                (there / program).write_text(PROGRAM)
                (there / program).chmod(0o755)
                (there / "rounds").write_text(str(rounds))
            return subprocess.run([sys.executable, str(SOURCE / "bench/builds.py"), f"{folder}/old",
                                   f"{folder}/new", f"--program={program}", *options],
                                  capture_output=True, text=True)

    def test_rows(self):
        run = self.run_builds("rows", [[10.0], [10.2], [10.1]], [[10.1], [9.0], [10.2]],
                              "--workload=w.txt")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"softmax 8x64 bf16 forward workload=w.txt +10.10 +10.10  1.000\n")
        self.assertIn("1 cells, 1.0000 of the old time", run.stdout)

    def test_slower(self):
        run = self.run_builds("rows", [[10.0], [10.2]], [[10.9], [10.8]], "--rounds=2")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("1.074  slower", run.stdout)

    def test_noise_is_not_slower(self):
        run = self.run_builds("rows", [[10.0], [11.0], [10.0]], [[10.8], [10.9], [10.8]])
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_compile_time(self):
        run = self.run_builds("compile_time", [[2.0, 3.0]], [[2.0]], "--rounds=1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"cell0 +2000.00 +2000.00  1.000")
        self.assertRegex(run.stdout, r"cell1 +only in old")

    def test_a_program_that_ends_is_named(self):
        run = self.run_builds("rows", [], [], "--rounds=1")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("bin/rows --json=", run.stderr)


if __name__ == "__main__":
    unittest.main()
